"""Model files and checkpoints, what is taken over from an earlier model, and scoring."""
