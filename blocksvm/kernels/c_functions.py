"""Functions of C libraries, called from kernels by their addresses: how it is done, and no library's names.

Whoever passes an address has found the function (sources/store/libraries.py); of plain Python there is none.
"""

from __future__ import annotations

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

COMPILED = not config.DISABLE_JIT  # else kernels are plain Python, which can't call them


def int_type():
    return ir.IntType(32)


def long_type():
    return ir.IntType(64)


def pointer_type():
    return ir.IntType(8).as_pointer()


def called(builder, address, result, *arguments):
    """The code of a call; an argument that is a number of 64 bits and stands for a pointer has been made one."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(builder.inttoptr(address, kind.as_pointer()), arguments)


@intrinsic
def address_of(typingctx, array, position):
    """Where ``array[position]`` lies; not checked."""

    def codegen(context, builder, signature, args):
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, args[0])
        place = cgutils.get_item_pointer(context, builder, kind, view, [args[1]], wraparound=False)
        return builder.ptrtoint(place, long_type())

    return types.intp(array, types.intp), codegen


@intrinsic
def read_from(typingctx, address, file, vector, offset, flags):
    """``preadv2(file, vector, 1, offset, flags)``: the bytes read, or -1.  vector: the address of one (address, length)."""

    def codegen(context, builder, signature, args):
        address, file, vector, offset, flags = args
        file, flags = builder.trunc(file, int_type()), builder.trunc(flags, int_type())
        return called(builder, address, long_type(), file, builder.inttoptr(vector, pointer_type()), int_type()(1), offset, flags)

    return types.int64(types.uint64, types.int64, types.intp, types.int64, types.int64), codegen


@intrinsic
def hash_of_bytes(typingctx, address, data, length):
    """``XXH3_64bits(data, length)``."""

    def codegen(context, builder, signature, args):
        address, data, length = args
        return called(builder, address, long_type(), builder.inttoptr(data, pointer_type()), length)

    return types.uint64(types.uint64, types.intp, types.int64), codegen


@intrinsic
def unpack(typingctx, address, packed, target, length):
    """``blosc_decompress_ctx(packed, target, length, 1)``: the bytes written, or 0 or less where it failed."""

    def codegen(context, builder, signature, args):
        address, packed, target, length = args
        pointers = builder.inttoptr(packed, pointer_type()), builder.inttoptr(target, pointer_type())
        return builder.sext(called(builder, address, int_type(), *pointers, length, int_type()(1)), long_type())

    return types.int64(types.uint64, types.intp, types.intp, types.int64), codegen


@intrinsic
def copy_bytes(typingctx, address, target, source, length):
    """``memmove(target, source, length)``: target."""

    def codegen(context, builder, signature, args):
        address, target, source, length = args
        pointers = builder.inttoptr(target, pointer_type()), builder.inttoptr(source, pointer_type())
        return builder.ptrtoint(called(builder, address, pointer_type(), *pointers, length), long_type())

    return types.intp(types.uint64, types.intp, types.intp, types.int64), codegen


@intrinsic
def clock_into(typingctx, address, clock, moment):
    """``clock_gettime(clock, moment)``, where moment is the address of (seconds, nanoseconds): 0, or -1."""

    def codegen(context, builder, signature, args):
        address, clock, moment = args
        called_clock = called(builder, address, int_type(), builder.trunc(clock, int_type()), builder.inttoptr(moment, pointer_type()))
        return builder.sext(called_clock, long_type())

    return types.int64(types.uint64, types.int64, types.intp), codegen
