"""Spanning arborescences of the largest weight: the best trees of heads (Chu, Liu, 1965; Edmonds, 1967).

weights (n + 1, n + 1) float64: weights[h, m] of the arc from h to m, where 0 is the root; what stands in column 0 and
on the diagonal does not count.  A tree is heads (n + 1,) int32 with heads[0] = -1.  An arc of weight -inf is never
taken where there is a tree without it.
"""

import numpy as np

from blocksvm.kernels import kernel


@kernel
def best_tree(weights, heads):
    """Write the best tree into ``heads``: its weight, -inf where there is none.

    While the heaviest entering arcs form a cycle, it becomes one new node: an arc into it weighs as much more or less
    as the tree would by taking it instead of the cycle's own arc.  Then the nodes are taken apart again, the last
    first: an arc that enters one enters an original node in it, and replaces the cycles' own arcs into all on the way.
    """
    n = weights.shape[0]
    cost = np.full((2 * n, 2 * n), -np.inf)
    ends = np.empty((2, 2 * n, 2 * n), np.int32)  # head and modifier of the original arc that an arc stands for
    for h in range(n):
        for m in range(1, n):
            if h != m:
                cost[h, m] = weights[h, m]
            ends[0, h, m], ends[1, h, m] = h, m
    inside = np.full(2 * n, -1, np.int32)  # the new node that a node has become a part of
    chosen = np.full(2 * n, -1, np.int32)  # where the heaviest arc into a node comes from
    mark = np.empty(2 * n, np.int32)
    size = n
    while True:
        for v in range(1, size):
            if inside[v] < 0:
                best = -1
                for u in range(size):
                    if inside[u] < 0 and cost[u, v] > (cost[best, v] if best >= 0 else -np.inf):
                        best = u
                if best < 0:
                    return -np.inf
                chosen[v] = best
        mark[:] = 0
        in_cycle = -1
        for first in range(1, size):
            v = first
            while v > 0 and inside[v] < 0 and mark[v] == 0:
                mark[v] = first
                v = chosen[v]
            if v > 0 and inside[v] < 0 and mark[v] == first:
                in_cycle = v
                break
        if in_cycle < 0:
            break
        while inside[in_cycle] < 0:
            inside[in_cycle] = size
            in_cycle = chosen[in_cycle]
        for u in range(size):
            if inside[u] >= 0:
                continue
            for v in range(size):
                if inside[v] != size:
                    continue
                into = cost[u, v] - cost[chosen[v], v]
                if into > cost[u, size]:
                    cost[u, size] = into
                    ends[0, u, size], ends[1, u, size] = ends[0, u, v], ends[1, u, v]
                if cost[v, u] > cost[size, u]:
                    cost[size, u] = cost[v, u]
                    ends[0, size, u], ends[1, size, u] = ends[0, v, u], ends[1, v, u]
        size += 1
    heads[0] = -1
    total = 0.0
    for v in range(size - 1, 0, -1):
        if mark[v] < 0:  # an arc from outside has entered it
            continue
        head, m = ends[0, chosen[v], v], ends[1, chosen[v], v]
        heads[m] = head
        total += weights[head, m]
        while m != v:
            mark[m] = -1
            m = inside[m]
    return total


@kernel
def best_trees(weights, k, trees):
    """The k best trees, or all where there are fewer, best first, into ``trees`` (k, n + 1) int32: returns how many.

    The trees other than one that was found are parted by their first arc that it has not (Lawler, 1972; Murty, 1968):
    all heads before it are as there, and that one is not.  The best of each part waits until it is the best of all.
    """
    n = weights.shape[0]
    most = 1 + k * n
    waiting = np.empty((most, n), np.int32)
    value = np.empty(most)
    fixed = np.empty(most, np.int32)  # heads of 1..fixed are given
    banned = np.zeros((most, n), np.bool_)  # heads that node fixed + 1 may not have
    heads = np.empty(n, np.int32)
    cost = np.empty((n, n))
    value[0] = best_tree(weights, heads)
    if not value[0] > -np.inf:
        return 0
    waiting[0] = heads
    fixed[0] = 0
    filled = 1
    n_trees = 0
    while n_trees < k:
        best = -1
        for c in range(filled):
            if value[c] > -np.inf and (best < 0 or value[c] > value[best]):
                best = c
        if best < 0:
            break
        trees[n_trees] = waiting[best]
        value[best] = -np.inf
        n_trees += 1
        if n_trees == k:
            break
        for first in range(fixed[best] + 1, n):
            cost[:] = weights
            for m in range(1, first):
                for h in range(n):
                    if h != waiting[best, m]:
                        cost[h, m] = -np.inf
            banned[filled] = False
            if first == fixed[best] + 1:
                banned[filled] = banned[best]
            banned[filled, waiting[best, first]] = True
            for h in range(n):
                if banned[filled, h]:
                    cost[h, first] = -np.inf
            value[filled] = best_tree(cost, heads)
            waiting[filled] = heads
            fixed[filled] = first - 1
            filled += 1
    return n_trees


@kernel
def tags_between(codes, bounds, arc_bounds, tags):
    """``tags`` (n_arcs, most) int32: the distinct codes of the tokens between the two ends of each arc, -1 after the
    last; codes (n_tokens,) int32.  The arcs of sentence s of n tokens are arc_bounds[s] + h n + m - 1 for heads h from
    0 to n and modifiers m from 1 to n; the root, h = 0, lies before the first token."""
    most = tags.shape[1]
    tags[:] = -1
    for s in range(bounds.shape[0] - 1):
        n = bounds[s + 1] - bounds[s]
        for h in range(n + 1):
            for m in range(1, n + 1):
                arc = arc_bounds[s] + h * n + m - 1
                filled = 0
                for t in range(min(h, m) + 1, max(h, m)):
                    tag = codes[bounds[s] + t - 1]
                    known = False
                    for j in range(filled):
                        if tags[arc, j] == tag:
                            known = True
                    if not known and filled < most:
                        tags[arc, filled] = tag
                        filled += 1
