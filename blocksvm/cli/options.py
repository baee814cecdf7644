"""The settings of online learners as options of a command line, the same for every command that runs a learner.

Imports nothing heavy, so that ``--help`` is quick; values are checked by the learner that takes them.
"""

from __future__ import annotations

from blocksvm.formats import AUTO, FORMATS

# (setting of LearnerSettings, flag, type, placeholder, help)
OPTIONS = (
    ("loss", "--loss", str, "NAME",
     "hinge (default), perceptron, squared-hinge, logistic, squared or epsilon-insensitive"),
    ("epsilon", "--epsilon", float, "E", "width of epsilon-insensitive (default 0.1)"),
    ("step", "--step", float, "C", "step size (default 1)"),
    ("decay", "--decay", str, "NAME", "steps of C / sqrt(t): sqrt (default), or constant"),
    ("radius", "--radius", float, "B", "ogd: project on ||w|| <= B; omd entropic: ||w||_1 <= B (default 1)"),
    ("mirror", "--mirror", str, "NAME", "map of omd: euclidean (default), entropic or p-norm"),
    ("p", "--p", float, "P", "omd p-norm: 2 or more; hf-fobos: 1, 2 (default), 3 or inf"),
    ("l1", "--l1", float, "L", "weight of ||w||_1 (default 0)"),
    ("l2", "--l2", float, "L", "fobos: weight of ||w||^2 / 2 (default 0)"),
    ("cap", "--cap", float, "V", "hf-fobos, p 1 or 2: largest height of a threshold (default: none)"),
    ("delta", "--delta", float, "D", "adagrad: what is added to the root of the squares (default 1)"),
    ("confidence", "--confidence", float, "ETA", "cw, scw: between 0.5 and 1 (default 0.9)"),
    ("variance", "--variance", float, "V", "cw, arow, scw: of each weight at the start (default 1)"),
    ("r", "--r", float, "R", "arow: weight of its regularisation (default 1)"),
    ("C", "-C", float, None, "pa1, pa2, scw: weight of the loss (default 1)"),
    ("lam", "--lambda", float, "L", "pegasos: weight of ||w||^2 / 2"),
    ("max_norm", "--max-norm", float, "R", "perceptron-bias: the largest norm of a row (a store knows it)"),
    ("n_features", "--n-features", float, "N", "omd entropic: how many features there are (a store knows it)"),
)  # fmt: skip


def add_format(parser, default: str = "told by its first bytes") -> None:
    """Add ``--format``."""
    names = ", ".join((AUTO, *FORMATS))
    parser.add_argument(
        "--format", metavar="NAME", help=f"of the text: {names}, or module:attribute (default: {default})"
    )


def add_learner_options(parser, without: tuple[str, ...] = ()) -> None:
    """Add the group to a parser; ``without``: settings whose flags the command has of its own, under the same dest.

    Each is None where it is not given.
    """
    group = parser.add_argument_group("settings of the learner (each learner says which it takes)")
    for name, flag, kind, placeholder, text in OPTIONS:
        if name not in without:
            group.add_argument(flag, dest=name, type=kind, metavar=placeholder, help=text)


def learner_settings(options):
    """The parsed options as ``LearnerSettings``, None where not given."""
    from blocksvm.learners.protocol import LearnerSettings

    return LearnerSettings(**{name: getattr(options, name, None) for name, *_ in OPTIONS})
