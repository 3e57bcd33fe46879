"""Studies of the cluster wing's peers: ``python -m benchmarks.cluster_peers [STUDY ...] [--write]``."""
