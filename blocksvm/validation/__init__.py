"""Cross-validation: which rows are held out, the problems that are trained at once, and what their models are worth."""
