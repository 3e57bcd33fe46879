"""The same closed-loop work written for other simulators, as well as each allows."""
