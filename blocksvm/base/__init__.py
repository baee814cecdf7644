"""The base of all rooms: errors, settings, labels, memory, files in and out; imports nothing from outside it."""
