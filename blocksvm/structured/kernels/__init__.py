"""Compiled loops of structured outputs: the best paths and trees, multipliers of small quadratic programs."""
