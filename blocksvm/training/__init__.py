"""The outer loop: which rows are in memory when, how often they are passed over, and whether the optimum is reached."""
