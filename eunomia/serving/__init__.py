"""The live server: real models, real requests, real devices, under the policies of the simulator."""
