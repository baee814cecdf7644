"""Spanning arborescences of the largest weight: the best trees of heads (Chu, Liu, 1965; Edmonds, 1967).

weights (n + 1, n + 1) float64: weights[h, m] of the arc from h to m, where 0 is the root; what stands in column 0 and on
the diagonal does not count.  A tree is heads (n + 1,) int32 with heads[0] = -1.  An arc of weight -inf is never taken
where there is a tree without it.
"""

import numpy as np

from blocksvm.kernels import inlined, kernel


@inlined
def entering(cost, alive, m):
    """The node from which the heaviest arc enters m, the first of equal ones; -1 where all weigh -inf."""
    best = -1
    for h in range(cost.shape[0]):
        if alive[h] and h != m and (cost[h, m] > -np.inf) and (best < 0 or cost[h, m] > cost[best, m]):
            best = h
    return best


@kernel
def best_tree(weights, heads):
    """Write the best tree into ``heads``: its weight, -inf where there is none.

    While the heaviest entering arcs form a cycle, it becomes one node: an arc into it weighs as much more or less as the
    tree would by taking it in the place of the cycle's own arc.  Then the nodes are taken apart again, the last first.
    """
    n = weights.shape[0]
    cost = weights.copy()
    # which of the original arcs the arc h -> m stands for
    from_node = np.empty((n, n), np.int32)
    to_node = np.empty((n, n), np.int32)
    for v in range(n):
        from_node[v] = v
        to_node[:, v] = v
    alive = np.ones(n, np.bool_)
    chosen = np.full(n, -1, np.int32)  # of each node, in the graph as it is: where its entering arc comes from
    group = np.arange(n).astype(np.int32)  # the node that each original node is a part of
    # contractions, one after the other: which nodes form the cycle, the arcs within it by the nodes that they enter, and
    # ``group`` as it was before
    within = np.zeros((n, n), np.bool_)
    inside_from = np.empty((n, n), np.int32)
    inside_to = np.empty((n, n), np.int32)
    part_of = np.empty((n, n), np.int32)
    cycle = np.empty(n, np.int32)  # its nodes, as they follow one another
    arc_weight = np.empty(n)
    mark = np.empty(n, np.int32)
    n_cycles = 0
    while True:
        for m in range(1, n):
            if alive[m]:
                chosen[m] = entering(cost, alive, m)
                if chosen[m] < 0:
                    return -np.inf
        mark[:] = 0
        supernode = -1
        for m in range(1, n):
            if not alive[m] or mark[m] != 0:
                continue
            v = m
            while v > 0 and mark[v] == 0:
                mark[v] = m
                v = chosen[v]
            if v > 0 and mark[v] == m:
                supernode = v
                break
        if supernode < 0:
            break
        part_of[n_cycles] = group
        length = 0
        v = supernode
        while length == 0 or v != supernode:
            cycle[length] = v
            within[n_cycles, v] = True
            inside_from[n_cycles, v] = from_node[chosen[v], v]
            inside_to[n_cycles, v] = to_node[chosen[v], v]
            arc_weight[v] = cost[chosen[v], v]
            length += 1
            v = chosen[v]
        for u in range(n):
            if not alive[u] or within[n_cycles, u]:
                continue
            # into the cycle, and out of it
            into = -np.inf
            into_at = -1
            out = -np.inf
            out_at = -1
            for v in cycle[:length]:
                if cost[u, v] > -np.inf and (into_at < 0 or cost[u, v] - arc_weight[v] > into):
                    into = cost[u, v] - arc_weight[v]
                    into_at = v
                if cost[v, u] > -np.inf and (out_at < 0 or cost[v, u] > out):
                    out = cost[v, u]
                    out_at = v
            cost[u, supernode] = into
            if into_at >= 0:
                from_node[u, supernode], to_node[u, supernode] = from_node[u, into_at], to_node[u, into_at]
            cost[supernode, u] = out
            if out_at >= 0:
                from_node[supernode, u], to_node[supernode, u] = from_node[out_at, u], to_node[out_at, u]
        for v in range(n):
            alive[v] &= v == supernode or not within[n_cycles, v]
            if within[n_cycles, group[v]]:
                group[v] = supernode
        n_cycles += 1
    heads[:] = -1
    for m in range(1, n):
        if alive[m]:
            heads[to_node[chosen[m], m]] = from_node[chosen[m], m]
    for c in range(n_cycles - 1, -1, -1):
        # the arc that enters the cycle from outside breaks it at the node that it enters
        broken = -1
        for v in range(1, n):
            if heads[v] >= 0 and within[c, part_of[c, v]] and not within[c, part_of[c, heads[v]]]:
                broken = part_of[c, v]
        for v in range(n):
            if within[c, v] and v != broken:
                heads[inside_to[c, v]] = inside_from[c, v]
    total = 0.0
    for m in range(1, n):
        total += weights[heads[m], m]
    return total


@kernel
def best_trees(weights, k, trees):
    """The k best trees, or all where there are fewer, best first, into ``trees`` (k, n + 1) int32: returns how many.

    The trees other than one that was found are parted by their first arc that it has not (Lawler, 1972; Murty, 1968): all
    heads before it are as there, and that one is not.  The best of each part waits until it is the best of all.
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
    last; codes (n_tokens,) int32.  The arcs of sentence s of n tokens are arc_bounds[s] + h n + m - 1 for heads h from 0
    to n and modifiers m from 1 to n; the root, h = 0, lies before the first token."""
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
