"""What Python users call: a training in one call, and its settings as typed keywords."""
