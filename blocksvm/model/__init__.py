"""Model files and checkpoints, the models that a run begins with, and scoring."""
