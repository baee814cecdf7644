"""Files that are written: what may be replaced, under which names they are made, and how they take their own."""

from blocksvm.base.outputs.checks import check_output, check_outputs, destination
from blocksvm.base.outputs.temporary import is_abandoned, owner, put_array, remove_abandoned, scratch_folder, take_array
from blocksvm.base.outputs.writing import (
    NewFile,
    as_text,
    named_errors,
    open_text,
    system_number,
    take_names,
    write_json,
    written_text,
    written_whole,
)

__all__ = [
    "NewFile",
    "as_text",
    "check_output",
    "check_outputs",
    "destination",
    "is_abandoned",
    "named_errors",
    "open_text",
    "owner",
    "put_array",
    "remove_abandoned",
    "scratch_folder",
    "system_number",
    "take_array",
    "take_names",
    "write_json",
    "written_text",
    "written_whole",
]
