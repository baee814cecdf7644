"""Benchmarks of blocksvm beside its peers: one objective, data sets and solvers one file each, one harness."""
