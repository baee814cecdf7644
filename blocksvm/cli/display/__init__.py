"""What a person sees while a command works: lines, of which the last is rewritten on a terminal; one file a display."""
