"""Formats of matrices: rows of numbers by column."""
