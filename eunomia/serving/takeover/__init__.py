"""A new process takes over from one that serves: listening sockets, ledger and networks, without a lost request."""
