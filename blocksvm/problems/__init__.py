"""What is minimised: the losses, one a file, and what it means to have solved a problem."""
