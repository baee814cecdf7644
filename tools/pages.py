"""Makes the pages of the documentation that the code itself tells; MkDocs calls it while it builds (mkdocs.yml).

The commands' options come from their parsers, settings from the declarations that parsers and keywords are made of, the
API from docstrings; README.md is the first page, and the tables of experiments/results are pages, too.  So that links
hold in the repository as well, pages name files as they lie there, and ``on_page_markdown`` turns that into pages.
"""

from __future__ import annotations

import argparse
import html
import importlib
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "experiments" / "results"
# a link in the repository -> on the site, whose pages lie in one folder and results in another
LINKS = (
    ("](../experiments/results/", "](results/"),
    ("](experiments/results/", "](results/"),
    ("](docs/", "]("),
    ("](CHANGELOG.md", "](changelog.md"),
    ("the page *Updates* of the site that `tools/docs` builds", "[Updates](updates.md)"),
    ("the page *Python API* of the site that `tools/docs` builds", "[Python API](api.md)"),
    ("the page *Layout of files* of the site that `tools/docs` builds", "[Layout of files](layout.md)"),
)
NOT_RUN = re.compile(r"^(```\w+) no-run$", re.MULTILINE)
INNER_PRODUCT = re.compile(r"<(\w+, \w+)>")  # in docstrings, where Markdown takes it for a tag
# what people extend, beside what `import blocksvm` offers
PROTOCOLS = (
    "blocksvm.learners.engine.learner.Learner",
    "blocksvm.losses.loss.Loss",
    "blocksvm.formats.format",
    "blocksvm.structured.structure.Structure",
    "blocksvm.structured.tasks.StructuredTask",
    "blocksvm.solvers.solver.Solver",
    "blocksvm.solvers.solver.Method",
)


def cell(text: str) -> str:
    """Text in a cell of a table, or in a paragraph, as it stands."""
    return re.sub(r"([|_*`])", r"\\\1", html.escape(" ".join(str(text).split()), quote=False))


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    head = list(head)
    return "\n".join(["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *lines, ""])


def code(text: str) -> str:
    """A word as code in a cell."""
    return f"<code>{html.escape(text, quote=False).replace('|', '&#124;')}</code>"


# ---------------------------------------------------------------------------------------------- commands


def options_of(parser: argparse.ArgumentParser) -> str:
    """A parser's description, arguments by group, and what stands at its end."""
    parts = [cell(parser.description or ""), ""]
    for group in parser._action_groups:
        rows = []
        for action in group._group_actions:
            if action.option_strings in (["-h", "--help"], ["--version"], ["--quiet"]):
                continue
            names = ", ".join(action.option_strings)
            takes = action.nargs != 0
            metavar = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
            words = metavar if isinstance(metavar, tuple) else (metavar,)
            shown = " ".join([names] * bool(names) + [*words] * takes)
            rows.append((code(shown), cell((action.help or "").replace("%%", "%"))))
        if rows:
            title = "arguments" if group.title in ("positional arguments", "options") else group.title
            parts += [f"**{cell(title)}**", "", table(("option", "what it is"), rows)]
    if parser.epilog:
        parts += ["```text", parser.epilog.strip("\n"), "```", ""]
    return "\n".join(parts)


def commands() -> str:
    """The page of all commands."""
    from blocksvm.base.settings import Settings
    from blocksvm.commands import COMMANDS, module_of

    parts = [
        "# Commands and their options",
        "Made of the parsers themselves: what `blocksvm COMMAND --help` prints. All commands know `--help`, "
        "`--version` and `--quiet`. The settings of each solver and learner are on [a page of their own](settings.md).",
    ]
    for name, summary in COMMANDS.items():
        module = module_of(name)
        parts += [f"## {name}", cell(summary[0].upper() + summary[1:]) + "."]
        if name == "structure":
            for action in module.ACTIONS:
                own = module.train_parser(Settings()) if action == "train" else module.model_parser(action)
                parts += [f"### structure {action}", options_of(own)]
        elif "settings" in inspect.signature(module.parser).parameters:
            parts.append(options_of(module.parser("the solver", Settings())))
        else:
            parts.append(options_of(module.parser()))
    return "\n\n".join(parts)


# ---------------------------------------------------------------------------------------------- settings


def settings_table(settings) -> str:
    from blocksvm.base.errors import option

    rows = []
    for setting in settings:
        metavar = setting.metavar or {str: "NAME", int: "N", bool: ""}.get(setting.kind, "X")
        rows.append((code(f"{option(setting.name)} {metavar}".strip()), code(setting.name), cell(setting.described())))
    return table(("option", "in Python", "what it is"), rows) if rows else "It has no settings.\n"


def settings() -> str:
    """The page of all settings: runs, solvers, learners, losses, formats, structured learners."""
    from blocksvm.formats import FORMATS
    from blocksvm.formats.choices import all_choices
    from blocksvm.learners import LEARNERS, get_learner
    from blocksvm.learners.engine.learner import COMMON_SETTINGS
    from blocksvm.learners.engine.methods import SOLVERS, get_method
    from blocksvm.losses import LOSSES, get_loss
    from blocksvm.structured import LEARNERS as STRUCTURED
    from blocksvm.structured import get_learner as get_structured
    from blocksvm.structured.settings import FEATURES, RUN, SCORING
    from blocksvm.training.run_settings import RUN_SETTINGS

    parts = [
        "# Settings of solvers and learners",
        "Made of the declarations from which options, Python keywords and parameters of estimators are made, too.",
        "## Every training run",
        settings_table(RUN_SETTINGS),
        "## Losses",
        table(("`--loss`", "what it is"), [(code(name), cell(get_loss(name).summary)) for name in LOSSES]),
    ]
    for name in LOSSES:
        if len([*get_loss(name).settings]):
            parts += [f"**Settings of {name}**", settings_table(get_loss(name).settings)]
    parts.append("## Solvers")
    for name in SOLVERS:
        method = get_method(name)
        parts += [f"### {name}", cell(method.summary) + ".", settings_table(method.settings)]
    parts += [
        "## Online learners",
        "Over a store (`train --learner NAME`) and over streams (`stream --learner NAME`). All of them take:",
        settings_table(COMMON_SETTINGS),
    ]
    for name in LEARNERS:
        learner = get_learner(name)
        parts += [
            f"### {name}{' (one row at a time)' * (name in SOLVERS)}",
            cell(learner.summary) + ".",
            f"Source: {cell(learner.source)}. Example: `--learner {learner.example}`.",
            settings_table(learner.settings),
        ]
    parts += [
        "## Input formats",
        f"{', '.join(f'`{name}`' for name in FORMATS)}. What they let you choose:",
        settings_table(all_choices()),
        "## Learners of outputs with structure",
        "A run of `structure train`:",
        settings_table(RUN),
        "Features of tokens:",
        settings_table(FEATURES),
        "Candidates:",
        settings_table(SCORING),
    ]
    for name in STRUCTURED:
        learner = get_structured(name)
        parts += [f"### structure: {name}", cell(learner.summary) + ".", settings_table(learner.settings)]
    return "\n\n".join(parts)


def updates() -> str:
    """The page of the learners' rules, as the files that hold them state them."""
    from blocksvm.learners import LEARNERS

    parts = [
        "# Updates of the online learners",
        "As the files in `blocksvm/learners/rules/` state them: m = y z is the margin of a row x with the label y, g a "
        "gradient of its loss.",
    ]
    families: dict[str, list[str]] = {}
    for name, place in LEARNERS.items():
        families.setdefault(place.partition(":")[0], []).append(f"`{name}`")
    for module, names in families.items():
        title = module.rpartition(".")[2].replace("_", " ").capitalize()
        text = inspect.getdoc(importlib.import_module(module))
        parts += [f"## {title}", ", ".join(names), f"```text\n{text}\n```"]
    return "\n\n".join(parts)


def keys_of(record, before: str = "") -> list[tuple[str, str]]:
    """(name, what it is) of a description's keys, those of objects in it behind it."""
    import msgspec

    rows = []
    for field in msgspec.structs.fields(record):
        optional = "" if field.required else "; may be missing"
        kind = record.__annotations__[field.name].removesuffix(" | UnsetType")
        rows.append((code(before + field.name), code(kind) + optional))
        for inner in (field.type, *get_args(field.type)):
            if hasattr(inner, "__struct_fields__"):
                rows += keys_of(inner, f"{before}{field.name}.")
    return rows


def layout() -> str:
    """The page of the layout of files: what schema.py and its neighbours say, and the keys of each description."""
    from blocksvm.model import expansion_rows, solver_state
    from blocksvm.store import arrays, history, schema, tables
    from blocksvm.store import hdf5_files as files
    from blocksvm.store.descriptions import SCHEMAS

    parts = ["# Layout of files", "From the code. How to read them is told on [the page about files](files.md)."]
    for title, module in (
        ("A store", schema),
        ("Arrays in any file", arrays),
        ("Names, labels and lines of a store", tables),
        ("Lines of a store's rows", tables.write_lines),
        ("Rows added and left out", history),
        ("The state of a solver", solver_state),
        ("Models that stand on rows", expansion_rows),
    ):
        parts += [f"## {title}", f"```text\n{inspect.getdoc(module)}\n```"]
    parts.append("## Records of a store's tables")
    for name, dtype in (("/rows", schema.WEIGHTED_ROW), ("/chunks", schema.CHUNK), ("/parts", schema.PART)):
        fields = [(code(field), code(dtype[field].str)) for field in dtype.names]
        parts += [f"`{name}`" + " (`weight` only where rows have some)" * (name == "/rows")]
        parts.append(table(("field", "dtype"), fields))
    for kind, record in SCHEMAS.items():
        versions = ", ".join(map(str, files.VERSIONS[kind]))
        parts += [
            f"## The description of a {kind}",
            f"Versions that are read: {versions}; the last one is written.",
            table(("key", "what it is"), keys_of(record)),
        ]
    return "\n\n".join(parts)


# ---------------------------------------------------------------------------------------------- Python


def api() -> str:
    """The page of what `import blocksvm` offers, and of what extensions are made of."""
    import blocksvm

    parts = [
        "# Python API",
        "What `import blocksvm` offers; `blocksvm.InputError` is raised for whatever is wrong with what the caller "
        "gives.",
    ]
    stub = Path(blocksvm.__file__).with_suffix(".pyi").read_text()
    parts += [f"::: blocksvm.{module}.{name}" for module, name in re.findall(r"^from \.(\S+) import (\w+)", stub, re.M)]
    parts += ["## What extensions are made of", *(f"::: {name}" for name in PROTOCOLS)]
    return "\n\n".join(parts)


def estimators() -> str:
    """The page of scikit-learn estimators, whose constructors are made when they are imported."""
    from blocksvm import estimators as room

    parts = [
        "# scikit-learn estimators",
        "Each has `fit`, `predict`, `score`, `get_params`, `set_params`; what they "
        "share is told on [the page about Python](python.md).",
    ]
    for name in dir(room):
        owner = getattr(room, name)
        text = inspect.cleandoc(owner.__doc__ or "").split("\nParameters:")[0]
        rows = [(code(p.name), code(repr(p.default)), cell(p.help)) for p in owner.parameters.values()]
        methods = [word for word in ("partial_fit", "decision_function", "predict_proba") if hasattr(owner, word)]
        has = f"Besides it has {', '.join(f'`{word}`' for word in methods)}." if methods else ""
        parts += [f"## {name}", *map(cell, text.split("\n\n")), has]
        parts.append(table(("parameter", "default", "what it is"), rows))
    return "\n\n".join(parts)


# ---------------------------------------------------------------------------------------------- MkDocs

GENERATED = {
    "commands.md": commands,
    "settings.md": settings,
    "updates.md": updates,
    "layout.md": layout,
    "api.md": api,
    "estimators.md": estimators,
}


def on_files(files, config):
    """Add the pages that are made, README, CHANGELOG and the results."""
    from mkdocs.structure.files import File

    for name, make in GENERATED.items():
        files.append(File.generated(config, name, content=make()))
    files.append(File.generated(config, "index.md", content=(ROOT / "README.md").read_text()))
    files.append(File.generated(config, "changelog.md", content=(ROOT / "CHANGELOG.md").read_text()))
    for path in sorted([*RESULTS.glob("*.md"), *RESULTS.glob("*.png"), *RESULTS.glob("data/*.json")]):
        files.append(File.generated(config, f"results/{path.relative_to(RESULTS)}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page, config, files) -> str:
    """Links as the site has them; what is not run is marked for the tests alone."""
    for before, after in LINKS:
        markdown = markdown.replace(before, after)
    return NOT_RUN.sub(r"\1", markdown)


def on_page_content(content: str, page, config, files) -> str:
    """Inner products in docstrings as they were written."""
    return INNER_PRODUCT.sub(r"&lt;\1&gt;", content)
