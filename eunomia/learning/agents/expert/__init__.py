"""Expert iteration: lookahead labels states that the policy comes to; the policy learns to lose least by its choice."""
