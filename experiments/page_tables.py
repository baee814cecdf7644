"""Tables in the pages of experiments/results that are made from the data kept beside them (experiments/results/data).

A page marks the place of a table, and what it shows:

    <!-- table: data=working-set-*; title=to the primal; rows=liblinear; columns=data | solver | seconds -->
    <!-- table: data=working-set-*; title=to the primal; cells=seconds; across=solver -->
    <!-- end of the table -->

``data``: names of files, with patterns, in the order in which they are shown.  ``title``: words of the titles of their
tables.  ``rows``: a regular expression that a row, its cells joined by " | ", contains.  ``columns``: their names, of
which "data", where a table has none, is its title up to the first comma or colon; without it all.  ``cells``,
``across`` and ``down``: a row for each value of the column ``down`` ("data" where nothing is said), a column for each
of ``across``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

PLACE = re.compile(r"(<!-- table: (.*?) -->\n).*?(<!-- end of the table -->)", re.DOTALL)


def records(given: dict[str, str], folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows that are meant: what their table's title begins with, and the cells by the names of their columns."""
    for pattern in given["data"].split():
        for path in sorted(folder.glob(f"{pattern}.json")):
            for table in json.loads(path.read_text())["tables"]:
                if given.get("title", "") in table["title"]:
                    for row in table["rows"]:
                        if re.search(given.get("rows", ""), " | ".join(row)):
                            named = re.split("[,:]", table["title"])[0]
                            yield named, dict(zip(table["columns"], row, strict=True))


def table_of(spec: str, folder: Path) -> str:
    """Markdown.  ValueError where the specification names nothing."""
    given = dict(part.split("=", 1) for part in spec.split("; "))
    rows_found = list(records(given, folder))
    if not rows_found:
        raise ValueError(f"{spec}: no such rows in {folder}")
    found = [{"data": named} | row for named, row in rows_found]
    if across := given.get("across"):
        down = given.get("down", "data")
        columns = [down, *dict.fromkeys(record[across] for record in found)]
        lines: dict[str, dict[str, str]] = {}
        for record in found:
            cells = lines.setdefault(record[down], {down: record[down]})
            if record[across] in cells:
                raise ValueError(f"{spec}: two cells for {record[down]}, {record[across]}")
            cells[record[across]] = record[given["cells"]]
        found = list(lines.values())
    else:
        columns = given["columns"].split(" | ") if "columns" in given else list(rows_found[0][1])
        if unknown := set(columns) - set().union(*found):
            raise ValueError(f"{spec}: no columns {unknown}")
    rows = [columns, *([record.get(name, "") for name in columns] for record in found)]
    head, *body = (re.sub(r"\|  (?=\|)", "| ", f"| {' | '.join(row)} |\n") for row in rows)
    return head + "|" + "---|" * len(columns) + "\n" + "".join(body)


def filled(text: str, folder: Path) -> str:
    """A page with its tables as the data have them."""
    return PLACE.sub(lambda place: f"{place[1]}\n{table_of(place[2], folder)}\n{place[3]}", text)
