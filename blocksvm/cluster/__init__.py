"""Training by many: workers read, decode and screen all rows, one process moves those that can move."""
