"""Files that are written: what may be replaced, under which names they are made, and how they take their own."""
