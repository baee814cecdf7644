"""Sources of blocks of rows: the interface, matrices in memory, and a reader that works ahead."""
