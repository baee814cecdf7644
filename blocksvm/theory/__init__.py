"""What stands on whole trainings: an online learner's regret against the best fixed weights, and its proven bounds."""
