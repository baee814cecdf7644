"""The rows of a working set: copied out of the blocks that pass by, one after the other in memory of their own.

A slot is a row's position in the set; slots (l,) int32 has it by the row's number in its source, or -1.  A row that
leaves keeps its slot, no longer a member, until the set is compacted.
"""

import numpy as np

from blocksvm.kernels import kernel
from blocksvm.sources.block_kernels import copy_row


@kernel
def renew(indptr, lengths, rows, share, least, slots, used, member, held_share, wanted):
    """New shares for the rows of a block that have a slot; those with a share below ``least`` >= 0 are no members.

    member (most slots,) uint8 and held_share (most slots,) float64, by slot; used (4,) int64: slots in use, members,
    the members' elements and entries; wanted (n,) int32 is filled with the rows of the block that have enough and are
    no members.  Returns (how many, their elements, sum of all shares, sum of those below ``least``).
    """
    count = size = 0
    total = below = 0.0
    for row in range(rows.shape[0]):
        slot = slots[rows[row]]
        mine = share[row]
        enough = mine >= least
        total += max(mine, 0.0)
        if slot >= 0:
            held_share[slot] = mine
            if member[slot] and not enough:
                member[slot] = 0
                used[1] -= 1
                used[2] -= indptr[row + 1] - indptr[row]
                used[3] -= lengths[row]
        if not enough:
            below += max(mine, 0.0)
        elif slot < 0 or not member[slot]:
            wanted[count] = row
            count += 1
            size += indptr[row + 1] - indptr[row]
    return count, size, total, below


@kernel
def take_in(block, chosen, lengths, share, slots, held, capacity, used, member, held_share):
    """The ``chosen`` (m,) rows of a block, of lengths (n,), into the set as members; held: its block, with room for
    ``capacity`` elements.  Returns how many found room."""
    indptr, rows = block.entries.indptr, block.rows
    for t in range(chosen.shape[0]):
        row = np.int64(chosen[t])
        slot = slots[rows[row]]
        if slot < 0:
            slot = used[0]
            if slot == member.shape[0] or not copy_row(block, row, held, slot, capacity):
                return t
            slots[rows[row]] = slot
            used[0] += 1
        member[slot] = 1
        held_share[slot] = share[row]
        used[1] += 1
        used[2] += indptr[row + 1] - indptr[row]
        used[3] += lengths[row]
    return chosen.shape[0]


@kernel
def compact(slots, held, capacity, used, member, held_share):
    """Close the gaps that rows which are no members leave."""
    rows = held.rows
    n_retained = 0
    for slot in range(used[0]):
        number = rows[slot]
        if not member[slot]:
            slots[number] = -1
            continue
        if n_retained < slot:
            # the offset after the row is read before the slot before it is written
            copy_row(held, slot, held, n_retained, capacity)
            member[n_retained] = 1
            held_share[n_retained] = held_share[slot]
            slots[number] = n_retained
        n_retained += 1
    used[0] = n_retained


@kernel
def bring_back(block, slots, held, capacity):
    """The rows of a block that have a slot, into it; their offsets are there already.  Returns how many."""
    indptr, rows, offsets = block.entries.indptr, block.rows, held.entries.indptr
    n_copied = 0
    for row in range(rows.shape[0]):
        slot = slots[rows[row]]
        if slot >= 0:
            if indptr[row + 1] - indptr[row] != offsets[slot + 1] - offsets[slot]:
                return -1
            if not copy_row(block, row, held, slot, capacity):
                return -1
            n_copied += 1
    return n_copied
