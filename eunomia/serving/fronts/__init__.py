"""The doors of the server: HTTP, gRPC, administration, the live page, policies, the OpenAPI document."""
