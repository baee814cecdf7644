"""Paths through lattices: the scores of nodes, the best paths (Viterbi, 1967), and the features along one.

A lattice has positions 0..P.  A node lies between two of them; nodes are sorted by where they end, and those that end
at position p are ``ending[p]:ending[p + 1]`` (int64, P + 2 numbers).  A path is a sequence of nodes from 0 to P of
which each starts where the one before it ends.  Node v has a kind (int32, below n_kinds); the path's score is the sum
of its nodes' scores and of one number for each two neighbours u, v,

    between[row of v, kind(u), kind(v)],     kind(u) = n_kinds before the first node.

A sequence of tokens with labels is the lattice whose nodes are all pairs (token, label) and whose kinds are the labels.

A row of features (int32, -1: none) has those of nodes in its first ``plain`` columns, and those of pairs of kinds
behind them.  The weights are ``width`` for each feature of nodes, then (n_kinds + 1, n_kinds) for each feature of
pairs, then as many that all pairs have.
"""

import numpy as np

from blocksvm.kernels import inlined, kernel


@kernel
def column_scores(features, first, column, stop, w, offset, scores):
    """``scores`` (n, width) float64: of each row first + r of ``features`` the sums of the weights that begin at
    w[offset + f * width], ``width`` of each of its features f in the columns column..stop - 1."""
    n, width = scores.shape
    scores[:] = 0.0
    for r in range(n):
        for j in range(column, stop):
            f = np.int64(features[first + r, j])
            if f >= 0:
                base = offset + f * width
                for y in range(width):
                    scores[r, y] += w[base + y]


@inlined
def inserted(values, nodes, ranks, v, filled, value, node, rank):
    """Take (value, node, rank) into row v, which has ``filled`` values, falling; returns how many it has then.  The
    first of equal values stays first."""
    k = values.shape[1]
    if filled == k and value <= values[v, k - 1]:
        return filled
    at = filled if filled < k else k - 1
    while at > 0 and values[v, at - 1] < value:
        values[v, at] = values[v, at - 1]
        nodes[v, at] = nodes[v, at - 1]
        ranks[v, at] = ranks[v, at - 1]
        at -= 1
    values[v, at] = value
    nodes[v, at] = node
    ranks[v, at] = rank
    return min(filled + 1, k)


@kernel
def best_paths(scores, kinds, starts, ending, between, rows, k, paths, lengths):
    """The k paths of the largest scores, or all where there are fewer, best first: returns how many.

    scores (n,) float64; starts (n,) int32: where each node starts; between (n_rows, n_kinds + 1, n_kinds) float64; rows
    (n,) int32: the row of each node in it; paths (k, P) int32: their nodes; lengths (k,) int64.

    What follows a node depends on its kind alone.  So of the nodes that end at a position the k best paths to each kind
    are enough: a group.  Of equal scores the one through the group whose kind comes first among the nodes counts, and
    in it the one through the node that comes first.  What comes before a node is found once for all of its kind that
    start there, if ``between`` has one row; spans with tags take several times as long otherwise.
    """
    n = scores.shape[0]
    n_kinds = between.shape[2]
    last = ending.shape[0] - 2
    # the best paths to each node, without its own score: their last nodes before it, and which of the paths to these
    best, before, rank = np.empty((n + 1, k)), np.empty((n + 1, k), np.int32), np.empty((n + 1, k), np.int32)
    n_paths = np.zeros(n + 1, np.int64)
    # the groups of position p are ending[p], ending[p] + 1, ...: their paths are those to these nodes, by these ranks
    group_best, through, at_rank = np.empty((n, k)), np.empty((n, k), np.int32), np.empty((n, k), np.int32)
    group_kinds, group_paths = np.empty(n, np.int32), np.zeros(n, np.int64)
    n_groups = np.zeros(last + 1, np.int64)
    group_of = np.full(n_kinds, -1, np.int64)
    like = np.full((last + 1, n_kinds), -1, np.int32)  # by where nodes start and their kind: the first of them
    for p in range(1, last + 2):  # the last one stands for the end of all paths
        first, stop = (ending[p], ending[p + 1]) if p <= last else (n, n + 1)
        for v in range(first, stop):
            start = starts[v] if v < n else last
            own = between[rows[v] if v < n else 0]
            kind = kinds[v] if v < n else -1
            if v < n and between.shape[0] == 1 and like[start, kind] >= 0:
                u = like[start, kind]
                n_paths[v] = n_paths[u]
                for r in range(n_paths[u]):
                    best[v, r], before[v, r], rank[v, r] = best[u, r], before[u, r], rank[u, r]
                continue
            filled = 0
            if start == 0 and v < n:
                best[v, 0], before[v, 0], rank[v, 0], filled = own[n_kinds, kind], -1, 0, 1
            for g in range(ending[start], ending[start] + n_groups[start]):
                more = own[group_kinds[g], kind] if v < n else 0.0
                for r in range(group_paths[g]):
                    filled = inserted(
                        best, before, rank, v, filled, group_best[g, r] + more, through[g, r], at_rank[g, r]
                    )
            n_paths[v] = filled
            if v < n:
                like[start, kind] = v
        if p > last:
            break
        for u in range(first, stop):
            g = group_of[kinds[u]]
            if g < 0:
                g = group_of[kinds[u]] = first + n_groups[p]
                group_kinds[g] = kinds[u]
                n_groups[p] += 1
            for r in range(n_paths[u]):
                value = best[u, r] + scores[u]
                group_paths[g] = inserted(group_best, through, at_rank, g, group_paths[g], value, u, r)
        for g in range(first, first + n_groups[p]):
            group_of[group_kinds[g]] = -1
    for j in range(n_paths[n]):
        length = 0
        v, r = before[n, j], rank[n, j]
        while v >= 0:
            paths[j, length] = v
            length += 1
            v, r = before[v, r], rank[v, r]
        paths[j, :length] = paths[j, :length][::-1].copy()
        lengths[j] = length
    return n_paths[n]


@kernel
def path_entries(features, plain, path, width, n_kinds, offsets, factor, indices, values, n):
    """Append the features of a path, as they come, behind the first n entries: returns how many there are then.

    path (4, length) int32, of each node: its row, the column of its weights, the kind before, its kind.  A feature f of
    the row makes f * width + column, or one of the two kinds; offsets: where the weights of the pairs' features begin,
    and those of all pairs.  values: the factor.
    """
    for t in range(path.shape[1]):
        pair = path[2, t] * n_kinds + path[3, t]
        for j in range(features.shape[1] + 1):
            index = np.int64(offsets[1] + pair)
            if j < features.shape[1]:
                f = np.int64(features[path[0, t], j])
                if f < 0:
                    continue
                index = f * width + path[1, t] if j < plain else offsets[0] + f * (n_kinds + 1) * n_kinds + pair
            indices[n] = index
            values[n] = factor
            n += 1
    return n
