"""Memory that another library owns, by its address: columns at the addresses of Arrow's C data interface.

The caller keeps the owner alive, and has checked that the memory is as long as the interface says.
"""

import ctypes

import numpy as np
from numba import carray, config, types
from numba.extending import intrinsic

from blocksvm.kernels import inlined_views, kernel

# the 64-bit words of an ArrowArray, https://arrow.apache.org/docs/format/CDataInterface.html
NULLS, OFFSET, BUFFERS, CHILDREN = 1, 2, 5, 6
WORDS = 7  # of it that are read

if config.DISABLE_JIT:

    def memory(address, n, dtype):
        """The ``n`` numbers of ``dtype`` from ``address`` on."""
        size = int(n) * np.dtype(dtype).itemsize
        return np.frombuffer((ctypes.c_char * size).from_address(int(address)) if size else b"", dtype)

else:

    @intrinsic
    def pointer_to(typingctx, address):
        """An address as a pointer."""

        def codegen(context, builder, signature, args):
            return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

        return types.voidptr(types.int64), codegen

    @inlined_views
    def memory(address, n, dtype):
        """The ``n`` numbers of ``dtype`` from ``address`` on."""
        return carray(pointer_to(address), (n,), dtype)


@kernel
def where_columns_lie(table, columns, addresses, bitmaps, offsets):
    """Of a table that was exported as an ArrowArray of columns at ``table``, for each of ``columns`` (m,) int64: the
    address of its items, that of the bits that tell which are valid, or 0, and its first item.  Outputs (m,) int64."""
    words = memory(table, WORDS, np.int64)
    most = 0
    for j in range(columns.shape[0]):
        most = max(most, columns[j] + 1)
    children = memory(words[CHILDREN], most, np.int64)
    for j in range(columns.shape[0]):
        child = memory(children[columns[j]], WORDS, np.int64)
        buffers = memory(child[BUFFERS], 2, np.int64)
        addresses[j] = buffers[1]
        bitmaps[j] = 0 if child[NULLS] == 0 else buffers[0]
        offsets[j] = child[OFFSET] + words[OFFSET]
