"""What every room stands on: errors, settings, labels, memory, files in and out; imports nothing from outside it."""
