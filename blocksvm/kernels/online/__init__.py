"""Online learners, a row at a time: what each does to a row (one file a family), and the loops over rows around it.

A learner is four inlined functions over its memory:

    score(indices, values, start, stop, F, W, S, P) -> <w, x> of the row, all its features brought up to date
    update(indices, values, start, stop, y, z, F, W, S, P)     one round on the row, whose score is z
    current(j, F, W, S, P) -> weight j after the rounds so far      (changes nothing)
    mean(j, F, W, S, P) -> mean of weight j after each round        (changes nothing)

F (features * W,) float64: W numbers a feature side by side, so that a feature costs one cache line; S: the learner's
scalars, S[T] the rounds done; P: its settings as numbers.  ``loops.py`` makes the compiled loops of a learner from these.
"""
