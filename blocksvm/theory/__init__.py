"""The regret of online learners against the best fixed weights, with its proven bounds; the maximum margin."""
