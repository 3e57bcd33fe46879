"""gRPC: the Open Inference Protocol, the server's health and reflection, over the connections of ``http2``."""
