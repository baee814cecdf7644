"""Four or eight neighbouring float64 numbers at once, in the processor's vector registers.

numba vectorises loops, but not sums that are kept in registers from one turn of a loop to the next.  So these are
values of a type of their own, a vector of LLVM's: ``eight(w, i)`` are the numbers from ``w[i]`` on, ``plus(z, v, x)``
is z + v * x, number by number, each product rounded before it is added, as plain code has it; ``put(w, i, z)`` writes
them.
"""

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

if config.DISABLE_JIT:

    def four(array, index):
        return array[index : index + np.uint64(4)].copy()

    def eight(array, index):
        return array[index : index + np.uint64(8)].copy()

    def plus(numbers, factor, others):
        return numbers + factor * others

    def times(factor, numbers):
        return factor * numbers

    def put(array, index, numbers):
        array[index : index + np.uint64(len(numbers))] = numbers

else:

    def vector(count):
        return ir.VectorType(ir.DoubleType(), count)

    class Numbers(types.Type):
        """``count`` float64 numbers."""

        def __init__(self, count):
            self.count = count
            super().__init__(name=f"Numbers({count})")

    @register_model(Numbers)
    class NumbersModel(models.PrimitiveModel):
        def __init__(self, manager, fe_type):
            super().__init__(manager, fe_type, vector(fe_type.count))

    def _pointer(context, builder, array_type, array, index_type, index, count):
        """To ``count`` numbers of an array, the first and the last of them within it where NUMBA_BOUNDSCHECK is set."""
        view = context.make_array(array_type)(context, builder, array)
        index = context.cast(builder, index, index_type, types.intp)
        last = builder.add(index, ir.Constant(index.type, count - 1))
        checked = context.enable_boundscheck
        cgutils.get_item_pointer(context, builder, array_type, view, [last], boundscheck=checked)
        pointer = cgutils.get_item_pointer(context, builder, array_type, view, [index], boundscheck=checked)
        return builder.bitcast(pointer, vector(count).as_pointer())

    def _loader(count):
        def load(typingctx, array, index):
            signature = Numbers(count)(array, index)

            def codegen(context, builder, signature, args):
                pointer = _pointer(context, builder, signature.args[0], args[0], signature.args[1], args[1], count)
                return builder.load(pointer, align=8)

            return signature, codegen

        return intrinsic(load)

    four = _loader(4)
    eight = _loader(8)

    def _all(builder, factor, count):
        """A vector of ``count`` times the same number."""
        numbers = ir.Constant(vector(count), ir.Undefined)
        for k in range(count):
            numbers = builder.insert_element(numbers, factor, ir.Constant(ir.IntType(32), k))
        return numbers

    @intrinsic
    def times(typingctx, factor, numbers):
        """factor * numbers."""
        signature = numbers(types.float64, numbers)

        def codegen(context, builder, signature, args):
            return builder.fmul(_all(builder, args[0], signature.args[1].count), args[1])

        return signature, codegen

    @intrinsic
    def plus(typingctx, numbers, factor, others):
        """numbers + factor * others."""
        signature = numbers(numbers, types.float64, others)

        def codegen(context, builder, signature, args):
            product = builder.fmul(_all(builder, args[1], signature.args[0].count), args[2])
            return builder.fadd(args[0], product)

        return signature, codegen

    @intrinsic
    def put(typingctx, array, index, numbers):
        """``array[index : index + count] = numbers``."""
        signature = types.void(array, index, numbers)

        def codegen(context, builder, signature, args):
            array_type, index_type, value_type = signature.args
            pointer = _pointer(context, builder, array_type, args[0], index_type, args[1], value_type.count)
            builder.store(args[2], pointer, align=8)
            return context.get_dummy_value()

        return signature, codegen
