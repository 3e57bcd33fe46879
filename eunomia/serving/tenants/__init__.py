"""Who may ask for what: grants, keys and limits. The server grants; a client never raises its own weight."""
