"""Traces as a page to look at: what runs did, beside each other."""
