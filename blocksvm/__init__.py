"""Linear models trained to a certified optimum on data larger than memory."""

__version__ = "0.1.0"
