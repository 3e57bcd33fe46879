"""Work that may wait beside work that may not: start windows, whole runs, what on-demand requests leave over."""
