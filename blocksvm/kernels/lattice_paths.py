"""Paths through lattices: the scores of nodes, the best paths (Viterbi, 1967), and the features along one.

A lattice has positions 0..P.  A node lies between two of them; nodes are sorted by where they end, and those that end at
position p are ``ending[p]:ending[p + 1]`` (int64, P + 2 numbers).  A path is a sequence of nodes from 0 to P of which each
starts where the one before it ends.  Node v has a kind (int32, below n_kinds); the path's score is the sum of its nodes'
scores and of one weight for each two neighbouring kinds,

    w[offset + kind(u) * n_kinds + kind(v)],     kind(u) = n_kinds before the first node.

A sequence of tokens with labels is the lattice whose nodes are all pairs (token, label) and whose kinds are the labels.
"""

import numpy as np

from blocksvm.kernels import kernel


@kernel
def column_scores(features, first, w, scores):
    """``scores`` (n, width) float64: of each row first + r of ``features`` (int32, -1: unknown) the sums of the weights
    w[f * width : (f + 1) * width] of its features."""
    n, width = scores.shape
    scores[:] = 0.0
    for r in range(n):
        for j in range(features.shape[1]):
            f = np.int64(features[first + r, j])
            if f >= 0:
                base = f * width
                for y in range(width):
                    scores[r, y] += w[base + y]


@kernel
def best_paths(scores, kinds, starts, ending, w, offset, n_kinds, k, paths, lengths):
    """The k paths of the largest scores, or all where there are fewer, best first: returns how many.

    scores (n,) float64; starts (n,) int32: where each node starts; paths (k, P) int32: their nodes; lengths (k,) int64.
    Of equal scores the one through nodes that come first counts.
    """
    n = scores.shape[0]
    last = ending.shape[0] - 2
    best = np.empty((n + 1, k))
    before = np.empty((n + 1, k), np.int32)
    rank = np.empty((n + 1, k), np.int32)
    n_paths = np.zeros(n + 1, np.int64)
    for v in range(n + 1):  # the last one stands for the end of all paths
        position = starts[v] if v < n else last
        kind = kinds[v] if v < n else 0
        if position == 0 and v < n:
            best[v, 0] = w[offset + n_kinds * n_kinds + kind] + scores[v]
            before[v, 0] = -1
            n_paths[v] = 1
            continue
        filled = 0
        for u in range(ending[position], ending[position + 1]):
            between = w[offset + kinds[u] * n_kinds + kind] if v < n else 0.0
            for r in range(n_paths[u]):
                total = best[u, r] + between
                if filled == k and total <= best[v, k - 1]:
                    break
                at = filled if filled < k else k - 1
                while at > 0 and best[v, at - 1] < total:
                    best[v, at] = best[v, at - 1]
                    before[v, at] = before[v, at - 1]
                    rank[v, at] = rank[v, at - 1]
                    at -= 1
                best[v, at] = total
                before[v, at] = u
                rank[v, at] = r
                filled = min(filled + 1, k)
        n_paths[v] = filled
        if v < n:
            for r in range(filled):
                best[v, r] += scores[v]
    for j in range(n_paths[n]):
        length = 0
        v, r = before[n, j], rank[n, j]
        while v >= 0:
            paths[j, length] = v
            length += 1
            v, r = before[v, r], rank[v, r]
        for a in range(length // 2):
            paths[j, a], paths[j, length - 1 - a] = paths[j, length - 1 - a], paths[j, a]
        lengths[j] = length
    return n_paths[n]


@kernel
def path_entries(features, rows, columns, width, kinds, n_kinds, offset, indices, values):
    """The features of a path, as they come: returns how many entries there are.

    rows, columns, kinds (length,) int32 of the path's nodes: f * width + column for each feature f of the row, and one for
    each two neighbouring kinds.
    """
    n = 0
    previous = n_kinds
    for t in range(rows.shape[0]):
        for j in range(features.shape[1]):
            f = np.int64(features[rows[t], j])
            if f >= 0:
                indices[n] = f * width + columns[t]
                values[n] = 1.0
                n += 1
        indices[n] = offset + previous * n_kinds + kinds[t]
        values[n] = 1.0
        n += 1
        previous = kinds[t]
    return n


@kernel
def label_entries(features, first, better, worse, factors, n_labels, offset, indices, values):
    """The features of the labels ``better`` (n,) int32 minus those of each of ``worse`` (k, n) int32, where these differ,
    times factors (k,) float64: returns how many entries there are.  A label of a token makes one entry a feature, of
    however many rows."""
    n = 0
    weights = np.empty(n_labels)
    labels = np.empty(n_labels, np.int32)  # those of a weight other than 0
    for t in range(better.shape[0]):
        plus = better[t]
        from_plus = better[t - 1] if t else n_labels
        changed = False
        for k in range(worse.shape[0]):
            minus = worse[k, t]
            from_minus = worse[k, t - 1] if t else n_labels
            if plus != minus:
                if not changed:
                    weights[:] = 0.0
                    changed = True
                weights[plus] += factors[k]
                weights[minus] -= factors[k]
            if plus != minus or from_plus != from_minus:
                indices[n], values[n] = offset + from_plus * n_labels + plus, factors[k]
                indices[n + 1], values[n + 1] = offset + from_minus * n_labels + minus, -factors[k]
                n += 2
        if changed:
            n_changed = 0
            for y in range(n_labels):
                if weights[y] != 0.0:
                    labels[n_changed] = y
                    n_changed += 1
            for j in range(features.shape[1]):
                f = np.int64(features[first + t, j])
                if f >= 0:
                    for y in labels[:n_changed]:
                        indices[n], values[n] = f * n_labels + y, weights[y]
                        n += 1
    return n
