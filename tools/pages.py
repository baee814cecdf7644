"""Makes the pages of the documentation that the code itself tells; MkDocs calls it while it builds (mkdocs.yml).

Commands are shown by their own help, settings by their declarations, rules and layouts of files by docstrings.
README.md is the first page, and the pages of experiments/results are pages, too.  So that links hold in the repository
as well, pages name files as they lie there, and ``on_page_markdown`` turns that into pages.
"""

import html
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "experiments" / "results"
# a link in the repository -> on the site, whose pages lie in one folder and results in another
LINKS = (
    ("](../experiments/results/", "](results/"),
    ("](experiments/results/", "](results/"),
    ("](../../docs/", "](../"),
    ("](docs/", "]("),
    ("](CHANGELOG.md", "](changelog.md"),
    ("](../blocksvm/online/rules)", "](updates.md)"),
    ("the page *Python API* of the site that `tools/docs` builds", "[Python API](api.md)"),
    ("the page *Layout of files* of the site that `tools/docs` builds", "[Layout of files](layout.md)"),
)
INNER_PRODUCT = re.compile(r"<(\w+, \w+)>")  # in docstrings, where Markdown takes it for a tag


def code(text: str) -> str:
    return f"```text\n{text.strip()}\n```"


def plain(text: str) -> str:
    """Text in a paragraph or in a cell of a table, as it stands."""
    return re.sub(r"([|_*`])", r"\\\1", html.escape(" ".join(str(text).split()), quote=False))


def commands() -> str:
    from blocksvm.cli.commands import COMMANDS

    parts = ["# Commands and their options"]
    for name in COMMANDS:
        line = [sys.executable, "-m", "blocksvm", name, "--help"]
        parts += [f"## {name}", code(subprocess.run(line, capture_output=True, text=True, check=True).stdout)]
    return "\n\n".join(parts)


def settings() -> str:
    """The settings of solvers and learners."""
    from blocksvm.base.errors import option
    from blocksvm.online.methods import NAMES, get_method

    parts = ["# Settings of solvers and learners"]
    for name in NAMES:
        method = get_method(name)
        source = f" Source: {plain(method.source)}." if hasattr(method, "source") else ""
        rows = [f"| `{option(one.name)}` | `{one.name}` | {plain(one.described())} |" for one in method.settings]
        table = ["| option | in Python | what it is |\n|---|---|---|", *rows] if rows else []
        parts += [f"## {name}", f"{plain(method.summary)}.{source}", "\n".join(table)]
    return "\n\n".join(parts)


def updates() -> str:
    """The rules of the learners, as the files that hold them state them."""
    from blocksvm.online.methods import LEARNERS, SOLVERS

    places = {**LEARNERS, **{name: place for name, place in SOLVERS.items() if "blocksvm.solvers." not in place}}
    text = "m = y ⟨w, x⟩ is the margin of a row, g the gradient of its loss, eta a step size."
    parts = ["# Updates of the online learners", f"How does each learner change its weights? {text}"]
    for module in dict.fromkeys(place.partition(":")[0] for place in places.values()):
        names = [f"`{name}`" for name, place in places.items() if place.partition(":")[0] == module]
        _, _, rule = inspect.getdoc(importlib.import_module(module)).partition("\n\n")
        parts += [f"## {', '.join(names)}", textwrap.indent(rule, "    ")]
    return "\n\n".join(parts)


def layout() -> str:
    """The layout of files, as the modules that own it state it."""
    parts = ["# Layout of files", "How to read them is told on [the page about files](files.md)."]
    rooms = {"A store": "store.descriptions", "Arrays in any file": "store.arrays",
             "The state of a solver": "model.solver_state", "A model": "model.model_file"}  # fmt: skip
    for title, module in rooms.items():
        parts += [f"## {title}", code(inspect.getdoc(importlib.import_module(f"blocksvm.{module}")))]
    return "\n\n".join(parts)


def api() -> str:
    """What ``import blocksvm`` offers, and what people write who add to it."""
    from blocksvm.online import get_learner

    stub = (ROOT / "blocksvm" / "__init__.pyi").read_text()
    offered = [f"{module}.{name}" for module, name in re.findall(r"^from \.(\S+) import (\w+)", stub, re.M)]
    learner = type(get_learner("ogd"))
    added = [f"{learner.__module__}.{learner.__name__}".removeprefix("blocksvm."), "losses.loss.Loss",
             "training.schedule.Schedule", "formats.format.Format", "formats.format.Reader", "testing.check_structure",
             "structured.structure.Structure", "structured.tasks.StructuredTask"]  # fmt: skip
    text = "[From Python](python.md) shows how they go together; what is added, [Extending](extending.md)."
    return "\n\n".join(["# Python API", text, *(f"::: blocksvm.{location}" for location in offered + added)])


def estimators() -> str:
    from blocksvm import estimators as room

    parts = ["# scikit-learn estimators", "What they share is told on [the page about Python](python.md)."]
    for name in dir(room):
        parts += [f"## {name}", code(inspect.getdoc(getattr(room, name)) or "")]
    return "\n\n".join(parts)


GENERATED = {f"{make.__name__}.md": make for make in (commands, settings, updates, layout, api, estimators)}


def on_files(files, config):
    """Add the pages that are made, README, CHANGELOG and the results."""
    from mkdocs.structure.files import File

    for name, make in GENERATED.items():
        files.append(File.generated(config, name, content=make()))
    for name, source in (("index.md", "README.md"), ("changelog.md", "CHANGELOG.md")):
        files.append(File.generated(config, name, content=(ROOT / source).read_text()))
    for path in sorted([*RESULTS.glob("*.md"), *RESULTS.glob("*.png")]):
        files.append(File.generated(config, f"results/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page, config, files) -> str:
    """Links as the site has them; what is not run is marked for the tests alone."""
    for before, after in LINKS:
        markdown = markdown.replace(before, after)
    return re.sub(r"^(```\w+) no-run$", r"\1", markdown, flags=re.MULTILINE)


def on_page_content(content: str, page, config, files) -> str:
    """Inner products in docstrings as they were written."""
    return INNER_PRODUCT.sub(r"&lt;\1&gt;", content)
