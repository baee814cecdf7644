"""What is minimised, and what it means to have solved it: primal, dual and their gap for each kind of problem."""
