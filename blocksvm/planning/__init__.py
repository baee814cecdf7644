"""What a training would take: rates measured on this machine, counts from a sample, and the arithmetic of both."""
