"""The command line: one file per group of verbs; wires nothing, formats everything."""
