"""Paths through lattices: the scores of nodes, the best paths (Viterbi, 1967), and the features along one.

A lattice has positions 0..P.  A node lies between two of them; nodes are sorted by where they end, and those that end at
position p are ``ending[p]:ending[p + 1]`` (int64, P + 2 numbers).  A path is a sequence of nodes from 0 to P of which each
starts where the one before it ends.  Node v has a kind (int32, below n_kinds); the path's score is the sum of its nodes'
scores and of one number for each two neighbours u, v,

    between[row of v, kind(u), kind(v)],     kind(u) = n_kinds before the first node.

A sequence of tokens with labels is the lattice whose nodes are all pairs (token, label) and whose kinds are the labels.

A row of features (int32, -1: none) has those of nodes in its first ``plain`` columns, and those of pairs of kinds behind
them.  The weights are ``width`` for each feature of nodes, then (n_kinds + 1, n_kinds) for each feature of pairs, then as
many that all pairs have.
"""

import numpy as np

from blocksvm.kernels import inlined, kernel


@kernel
def column_scores(features, first, column, stop, w, offset, scores):
    """``scores`` (n, width) float64: of each row first + r of ``features`` the sums of the weights w[offset + f * width :
    offset + (f + 1) * width] of its features in the columns column..stop - 1."""
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
def continued(v, low, high, of_kind, n_of, scores_of, own, kind, best, before, rank):
    """Fill ``best``, ``before`` and ``rank`` of v with the best paths that it continues, of the places low..high - 1, of
    which u has n_of[u] with the scores scores_of[u]; returns how many.  kind: -1 for the end of all paths."""
    k = best.shape[1]
    filled = 0
    for u in range(low, high):
        more = own[of_kind[u], kind] if kind >= 0 else 0.0
        for r in range(n_of[u]):
            total = scores_of[u, r] + more
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
    return filled


@kernel
def best_paths(scores, kinds, starts, ending, between, rows, k, paths, lengths):
    """The k paths of the largest scores, or all where there are fewer, best first: returns how many.

    scores (n,) float64; starts (n,) int32: where each node starts; between (n_rows, n_kinds + 1, n_kinds) float64; rows
    (n,) int32: the row of each node in it; paths (k, P) int32: their nodes; lengths (k,) int64.  Of equal scores the one
    through nodes that come first counts.

    What follows a node depends on its kind alone: where more nodes end than there are kinds, the k best paths to each
    kind are enough, and of equal scores the one through the kind that comes first counts.  In such lattices what comes
    before a node is found once for all of its kind that start there, if they have the same row.
    """
    n = scores.shape[0]
    n_kinds = between.shape[2]
    last = ending.shape[0] - 2
    best = np.empty((n + 1, k))
    before = np.empty((n + 1, k), np.int32)
    rank = np.empty((n + 1, k), np.int32)
    n_paths = np.zeros(n + 1, np.int64)
    # the kinds of a position p that many nodes end at, in the places ending[p], ending[p] + 1, ...: the best paths to each
    # of them, their last nodes and ranks there
    crowded = False
    for p in range(1, last + 1):
        crowded |= ending[p + 1] - ending[p] > n_kinds
    size = n if crowded else 0
    n_groups = np.zeros(last + 1, np.int64)
    group_kinds, group_paths = np.empty(size, np.int32), np.zeros(size, np.int64)
    group_best = np.empty((size, k))
    through, at_rank = np.empty((size, k), np.int32), np.empty((size, k), np.int32)
    place = np.full(n_kinds, -1, np.int64)
    # by where nodes start and their kind: one of them, and its best paths without its own score
    shared = crowded and between.shape[0] == 1
    like = np.full((last + 1) * n_kinds if shared else 0, -1, np.int64)
    best_before = np.empty((len(like), k))
    for p in range(1, last + 2):  # the last one stands for the end of all paths
        first, stop = (ending[p], ending[p + 1]) if p <= last else (n, n + 1)
        for v in range(first, stop):
            start = starts[v] if v < n else last
            own = between[rows[v] if v < n else 0]
            kind = kinds[v] if v < n else -1
            if start == 0 and v < n:
                best[v, 0] = own[n_kinds, kind] + scores[v]
                before[v, 0] = -1
                n_paths[v] = 1
                continue
            low = ending[start]
            slot = start * n_kinds + kind
            if shared and v < n and like[slot] >= 0:
                u = like[slot]
                n_paths[v] = n_paths[u]
                for r in range(n_paths[u]):
                    before[v, r], rank[v, r] = before[u, r], rank[u, r]
                    best[v, r] = best_before[slot, r] + scores[v]
                continue
            if n_groups[start]:
                high = low + n_groups[start]
                filled = continued(v, low, high, group_kinds, group_paths, group_best, own, kind, best, before, rank)
                for r in range(filled):
                    g, q = before[v, r], rank[v, r]
                    before[v, r], rank[v, r] = through[g, q], at_rank[g, q]
            else:
                filled = continued(v, low, ending[start + 1], kinds, n_paths, best, own, kind, best, before, rank)
            n_paths[v] = filled
            if v < n:
                for r in range(filled):
                    if shared:
                        best_before[slot, r] = best[v, r]
                    best[v, r] += scores[v]
                if shared:
                    like[slot] = v
        if p > last or stop - first <= n_kinds:
            continue
        for u in range(first, stop):
            g = place[kinds[u]]
            if g < 0:
                g = first + n_groups[p]
                place[kinds[u]] = g
                group_kinds[g] = kinds[u]
                n_groups[p] += 1
            for r in range(n_paths[u]):
                filled = group_paths[g]
                if filled == k and best[u, r] <= group_best[g, k - 1]:
                    break
                at = filled if filled < k else k - 1
                while at > 0 and group_best[g, at - 1] < best[u, r]:
                    group_best[g, at] = group_best[g, at - 1]
                    through[g, at] = through[g, at - 1]
                    at_rank[g, at] = at_rank[g, at - 1]
                    at -= 1
                group_best[g, at] = best[u, r]
                through[g, at] = u
                at_rank[g, at] = r
                group_paths[g] = min(filled + 1, k)
        for g in range(first, first + n_groups[p]):
            place[group_kinds[g]] = -1
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
def path_entries(features, plain, rows, columns, width, kinds, n_kinds, offsets, indices, values):
    """The features of a path, as they come: returns how many entries there are.

    rows, columns, kinds (length,) int32 of the path's nodes: f * width + column for each feature f of the row, and those of
    each two neighbouring kinds; offsets: two numbers, where the weights of the pairs' features begin, and of all pairs.
    """
    n = 0
    previous = n_kinds
    for t in range(rows.shape[0]):
        pair = previous * n_kinds + kinds[t]
        for j in range(features.shape[1]):
            f = np.int64(features[rows[t], j])
            if f >= 0:
                if j < plain:
                    indices[n] = f * width + columns[t]
                else:
                    indices[n] = offsets[0] + f * (n_kinds + 1) * n_kinds + pair
                values[n] = 1.0
                n += 1
        indices[n] = offsets[1] + pair
        values[n] = 1.0
        n += 1
        previous = kinds[t]
    return n


@kernel
def label_entries(features, plain, first, better, worse, factors, n_labels, offsets, indices, values):
    """The features of the labels ``better`` (n,) int32 minus those of each of ``worse`` (k, n) int32, where these differ,
    times factors (k,) float64: returns how many entries there are; offsets: as in ``path_entries``.  A label of a token
    makes one entry a feature, of however many rows."""
    n = 0
    weights = np.empty(n_labels)
    labels = np.empty(n_labels, np.int32)  # those of a weight other than 0
    n_pairs = (n_labels + 1) * n_labels
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
                gained, lost = from_plus * n_labels + plus, from_minus * n_labels + minus
                for j in range(plain, features.shape[1] + 1):
                    offset = offsets[1]
                    if j < features.shape[1]:
                        f = np.int64(features[first + t, j])
                        if f < 0:
                            continue
                        offset = offsets[0] + f * n_pairs
                    indices[n], values[n] = offset + gained, factors[k]
                    indices[n + 1], values[n + 1] = offset + lost, -factors[k]
                    n += 2
        if changed:
            n_changed = 0
            for y in range(n_labels):
                if weights[y] != 0.0:
                    labels[n_changed] = y
                    n_changed += 1
            for j in range(plain):
                f = np.int64(features[first + t, j])
                if f >= 0:
                    for y in labels[:n_changed]:
                        indices[n], values[n] = f * n_labels + y, weights[y]
                        n += 1
    return n
