"""What can do the work, and how fast."""
