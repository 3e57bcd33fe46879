"""What a change of the house does: names of users, files that a reader enters, speeds, at two checkouts."""
