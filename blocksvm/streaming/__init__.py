"""One pass over text: each row predicted, learned from, and gone; labels and features are not known in advance."""
