"""The commands, one a file: what they are given, what is made of it, and what they print."""
