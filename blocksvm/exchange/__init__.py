"""Models in the forms that other programs read and write; one file a form."""
