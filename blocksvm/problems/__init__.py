"""Problems: primal, dual and their gap, for each kind of objective that solvers minimise."""
