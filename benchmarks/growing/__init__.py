"""How promises hold over ten thousand devices: a simulation of credit between servers, in levels."""
