"""The learned scheduler: what it sees, how it decides, how it is trained, kept and served."""
