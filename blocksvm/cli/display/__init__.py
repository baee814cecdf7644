"""The displays of commands at work, a file each: lines, of which the last is rewritten on a terminal."""
