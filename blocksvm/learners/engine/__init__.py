"""The machine around the rules: loops over rows, their state, solvers made of them."""
