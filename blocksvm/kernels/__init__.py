"""The compiled inner loops: arrays and scalars in, arrays and scalars out; compile.py owns how numba compiles them.

Conventions of all kernels, which a ``Block`` keeps to: ``indptr`` int64, ``indices`` int32, ``values`` float32 or
float64 or None (every value is 1), ``w``, ``alpha`` and sums float64, all C-contiguous.  Kernels do not check
bounds: the caller has checked the arrays.
"""

from blocksvm.kernels.compile import by_type, inlined, inlined_views, inlined_with, kernel, specialised, with_parts

__all__ = ["by_type", "inlined", "inlined_views", "inlined_with", "kernel", "specialised", "with_parts"]
