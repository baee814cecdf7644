"""Text as tokens, characters and features: what the tasks make structures of."""
