"""Reports of runs from their traces: an HTML page, or a picture."""
