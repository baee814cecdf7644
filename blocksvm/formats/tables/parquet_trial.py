"""The footer of a Parquet file, read once in a process of its own (store/foreign.py): pyarrow ends the process
that asks for the description of a damaged one."""

from __future__ import annotations

from blocksvm.store.foreign import Frame, frames_from, send

MEMORY = 1 << 28  # bytes
FIELDS = ("path_in_schema", "physical_type", "num_values", "total_uncompressed_size", "has_dictionary_page")


def serve(path: str, limits: tuple[int, int]) -> None:
    """Look at all of the footer that is looked at later."""
    from pyarrow import parquet

    def frames():
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            str(file.schema_arrow)
            for k in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(k)
                for j in range(group.num_columns):
                    column = group.column(j)
                    for name in FIELDS:
                        getattr(column, name)
                if k % 100 == 0:
                    yield Frame("sound", {}, [])

    send(frames(), *limits)


def try_footer(path: str, shown: str) -> None:
    """InputError where it cannot be read."""
    with frames_from(__name__, path, memory=MEMORY, shown=shown, library="pyarrow") as take:
        while take("sound") is not None:
            pass
