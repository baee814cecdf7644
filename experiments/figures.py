"""The tables of README.md, docs/measurements.md and the pages of results, from those in experiments/results/data.

    python -m experiments.figures [--check]

experiments/results/figures.json names the figures of the first two, one a row: what it is of, the program, the page
whose data it is from, words that its table's title and its row contain, the column.  Each row names its machine.  The
others mark their tables (experiments/page_tables.py).  To renew a page run its measurement (``tools/bench sources=DIR
PAGE``), put the JSON from experiments/data/tables into experiments/results/data, and run this again.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from experiments.page_tables import filled

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "experiments" / "results"
BEGIN, END = "<!-- figures: tools/bench figures makes this table -->", "<!-- end of the figures -->"
AROUND = re.compile(r" \(\d.*|^.* = ")  # of '0.5 (0.4-0.6)' the median is shown, of 'a / b = c' the quotient


def cell_of(figure: dict, results: Path = RESULTS) -> tuple[str, str]:
    """(figure, machine and day) of the one cell that is meant; ValueError where there is none, or several."""
    found = []
    for path in sorted((results / "data").glob(f"{figure['page']}*.json")):
        kept = json.loads(path.read_text())
        for table in kept["tables"]:
            columns = [k for k, name in enumerate(table["columns"]) if name.startswith(figure["column"])]
            for row in table["rows"] if columns else ():
                text = "\n".join([table["title"], *row])
                if all(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) for word in figure["words"]):
                    machine = kept["machine"].partition(",")[0].replace("(R)", "").removesuffix(" Processor")
                    found.append((AROUND.sub("", row[columns[0]]), f"{machine}, {kept['date']}"))
    if len(found) != 1:
        raise ValueError(f"{figure['page']}: {len(found)} cells for {figure['words']}, {figure['column']}")
    return found[0]


def table(figures: list[dict], link: str) -> str:
    """Markdown; link: where the pages of results lie as seen from the page."""
    rows = ["| what | program | figure | from |", "|---|---|---|---|"]
    for figure in figures:
        text, origin = cell_of(figure)
        number, opened, remark = text.partition(" (")
        unit = figure["unit"] if number[0].isdigit() else ""  # a program may not have reached it
        shown = f"{number} {unit}".strip() + opened + remark
        source = f"[{figure['page']}.md]({link}/{figure['page']}.md), {origin}"
        rows.append(f"| {figure['what']} | {figure['program']} | {shown} | {source} |")
    return "\n".join(rows)


def pages() -> dict[Path, str]:
    """The pages with their tables as the data have them."""
    figures, found = json.loads((RESULTS / "figures.json").read_text()), {}
    for path, link, chosen in (
        (ROOT / "README.md", "experiments/results", [figure for figure in figures if figure.get("readme")]),
        (ROOT / "docs" / "measurements.md", "../experiments/results", figures),
    ):
        before, _, rest = path.read_text().partition(BEGIN)
        found[path] = f"{before}{BEGIN}\n\n{table(chosen, link)}\n\n{END}{rest.partition(END)[2]}"
    for path in sorted(RESULTS.glob("*.md")):
        found[path] = filled(path.read_text(), RESULTS / "data")
    return found


def renew(pages: dict[Path, str], check: bool, task: str) -> None:
    """Write the pages as they are to be, or, to check them, end with 1 where one is not; task: of doit, that writes."""
    for path, text in pages.items():
        if check and path.read_text() != text:
            raise SystemExit(f"{path.name}: not as the data have it; tools/bench {task} writes it")
        if not check:
            path.write_text(text)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true", help="write nothing; end with 1 where a page has another table")
    options = p.parse_args()
    renew(pages(), options.check, "figures")


if __name__ == "__main__":
    main()
