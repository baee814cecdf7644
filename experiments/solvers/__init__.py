"""Solvers, one file each, every one a child process on one data set and one level.

A solver's module has LEVELS (settings from loose to tight), ABOUT (what they mean), DISTRIBUTION (the package whose
version is told), BYTES_PER_NONZERO (memory it needs for the rows, 0: what it is given) and ``run(task) -> Outcome``.
"""

NAMES = ("blocksvm", "liblinear", "linear_svc", "sgd", "snap", "vw")
