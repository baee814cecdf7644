"""Everything that is a file or a source of rows: the store, models and checkpoints, matrices in memory."""
