"""What is measured of the cluster wing."""
