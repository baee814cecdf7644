"""The rules of the online learners, a file a family."""
