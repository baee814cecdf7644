"""How far rows lie beyond their bounds, in units of their norms: what tells which of them a gap has decided.

Distances are kept as a byte a row: the number of a bin, eight to each factor of two, whose lower edge lies below the
distance.  Row numbers below are those of a run's source.
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.loss import row_cost, stationarity

BINS = 256
PER_OCTAVE = 8.0
ONE = 128  # the bin that begins at distance 1
FARTHEST = 254
DECIDED = 255  # no distance: the row has been left out
ROUNDED = 1.0 - 1.0e-9  # rounding of scores and norms never takes a row farther than it is


@inlined
def bin_of(distance):
    """The bin of a distance; 0 where there is none."""
    if not distance > 0.0:
        return 0
    return int(min(max(np.floor(PER_OCTAVE * np.log2(distance)) + ONE, 0.0), FARTHEST))


def distances(scores, y, weights, alpha, cost, p, labelled, indptr, sq_norms, bias_sq, rows, bins, counts):
    """Of a block's rows at decision values ``scores`` (n,) float64: ``bins[rows[i]]`` is the bin of

        min(|excess_i|, |z_i|) / ||x_i||,

    how far w may move, before the row leaves its bound or its predicted label changes, since z_i moves by at most
    ||x_i|| ||w - w'||; without |z_i| where targets are no labels (``labelled`` False).  A row between its bounds has
    bin 0; one of cost 0 has |z_i| alone.  counts (BINS, 2) int64 gains the rows and entries of each bin.
    """
    for i in range(scores.shape[0]):
        c = row_cost(cost, weights, y, i)
        z = scores[i]
        q = sq_norms[i] + bias_sq
        far = abs(z) if labelled else np.inf
        if c > 0.0:
            projected, excess = stationarity(alpha[i], z, float(y[i]), c, p)
            far = min(far, abs(excess))
        found = bin_of(ROUNDED * far / np.sqrt(q)) if q > 0.0 else 0
        bins[rows[i]] = found
        counts[found, 0] += 1
        counts[found, 1] += indptr[i + 1] - indptr[i]
