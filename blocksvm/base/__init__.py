"""The base of all rooms: errors, settings, labels, memory, log; imports nothing from outside it."""
