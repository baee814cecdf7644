"""The parts that commands share: arguments, progress, the run as a command makes it."""
