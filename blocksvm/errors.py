"""The one exception that means: what the user gave is wrong.  A command prints it as one line and exits 2."""


class InputError(Exception):
    """One sentence: what is wrong, where (file:line, chunk), what to do."""
