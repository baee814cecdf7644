"""The functions that Python users call: a training in one call, its settings as typed keywords."""
