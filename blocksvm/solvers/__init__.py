"""The block solvers, one file each, behind one protocol."""
