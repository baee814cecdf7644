"""Input formats, one a file: bytes of text to rows."""
