"""The live server: real models, real requests, real devices, under the policies of the simulator.

ONNX Runtime 1.29 and later sends what it sees to its makers: names of networks, run times, and errors that quote a
tenant's values. This keeps it from that, before any process imports it; ``ORT_DISABLE_TELEMETRY=0`` leaves it on.
"""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
