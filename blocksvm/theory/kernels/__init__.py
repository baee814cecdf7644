"""Compiled loops of a replay."""
