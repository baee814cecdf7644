"""Formats of text, a row a line."""
