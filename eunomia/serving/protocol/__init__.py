"""The Open Inference Protocol (KServe V2): messages to objects and back, without any server."""
