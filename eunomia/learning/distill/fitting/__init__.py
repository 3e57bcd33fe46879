"""How rules are found: what the teacher would do in states that the rules lead to, and trees grown on that."""
