"""Formats of tables: columns with names and types."""
