"""What warming up (cli/warmup.py) calls to have the check of a store's rows compiled; chunks are decoded from Python."""

from blocksvm.kernels.check import check_rows


def decode_chunks(*arguments) -> None:
    """``check_rows`` of the block among the arguments."""
    indptr, indices, values = arguments[13:16]
    check_rows(indices, values, arguments[9], indptr)
