"""What every room stands on: errors, settings, labels, memory, files in and out. Imports nothing of the package but itself."""
