"""Compiled loops that read text and tables."""
