"""tools/campaigns NAME [--cases N] [--seed S] [--only NUMBER]: runs one and prints its table."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the commands have it; numpy reads it when it is imported

from support.campaigns import NAMES, run_cases, shown  # noqa: E402


def main() -> int:
    modules = {name: importlib.import_module(f"support.campaigns.{name}") for name in NAMES}
    listed = "\n".join(f"  {name:<12} {module.__doc__.splitlines()[0]}" for name, module in modules.items())
    parser = argparse.ArgumentParser(
        prog="tools/campaigns",
        description=f"{__doc__}\n\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--cases", type=int, metavar="N", help="how many (default: as reliability.md tells)")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--only", metavar="NUMBER,...", help="these cases alone, to repeat one")
    parser.add_argument("--kind", action="append", metavar="KIND", help="only cases of this line of the table")
    options = parser.parse_args()
    campaign = modules[options.name]
    n = options.cases or campaign.CASES
    numbered = list(enumerate(campaign.cases(n, options.seed)))
    if options.kind:
        numbered = [(number, case) for number, case in numbered if case.kind in options.kind]
    if options.only:
        wanted = {int(number) for number in options.only.split(",")}
        numbered = [(number, case) for number, case in numbered if number in wanted]

    def repeat(number: int) -> str:
        return f"repeat: tools/campaigns {options.name} --cases {n} --seed {options.seed} --only {number}"

    table = run_cases(numbered, repeat)
    print(shown(table))
    return 1 if any(line.failures for line in table.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
