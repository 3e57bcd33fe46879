"""What the server writes down about itself: ledger, metrics, traces, recordings, history, statistics."""
