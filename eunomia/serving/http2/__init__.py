"""HTTP/2 (RFC 9113) as gRPC needs it, in the server's own event loop: every frame in its tenant's turn."""
