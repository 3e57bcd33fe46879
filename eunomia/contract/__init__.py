"""What policies and engines exchange: views and decisions of both wings, each list of choices once."""
