"""The settings of structured learners and of a run of one; imports nothing heavy."""

from __future__ import annotations

from blocksvm.base.settings import Setting, Settings

C = Setting("C", "weight of the losses: larger steps, or a closer fit", default=1.0, above=0.0)
MEAN, LAST = "mean", "last"
WEIGHTS = Setting(
    "weights", "those of the model: the mean of the weights after each update, or the last", default=MEAN, kind=str,
    choices=(MEAN, LAST),
)  # fmt: skip
PREDICTED, MAX_LOSS = "predicted", "max-loss"
AGAINST = Setting(
    "against", "the output that an update moves away from: the one predicted, with the root of its loss as margin, or "
    "that of the largest score + loss (max-loss), with the loss itself", default=PREDICTED, kind=str,
    choices=(PREDICTED, MAX_LOSS),
)  # fmt: skip
MIRA = Settings((
    Setting("C", "bound of the multipliers", default=0.01, above=0.0),
    Setting("k", "best outputs of an example that an update moves away from", default=5, kind=int, least=1, most=1000),
    Setting("slack", "each constraint with a slack of its own, or all of an example with one (shared)", default="own",
            kind=str, choices=("own", "shared")),
    Setting("at_once", "examples of an update, whose constraints are met together", default=1, kind=int, least=1),
    WEIGHTS,
))  # fmt: skip
FRANK_WOLFE = Settings((
    C,
    Setting("tol", "certified relative gap to reach", default=1e-2, least=0.0),
    Setting("inner_passes", "passes over a block of examples while it is in memory", default=1, kind=int, least=1,
            most=1000, metavar="N"),
))  # fmt: skip
ONLINE = Settings((WEIGHTS,))
AGGRESSIVE = Settings((AGAINST, WEIGHTS))

RUN = Settings((
    Setting("epochs", "passes over the examples, at most", default=10, kind=int, least=1, metavar="N"),
    Setting("seed", "seed of the order of examples", default=0, kind=int, least=0, most=2**63 - 1),
    Setting("memory", "memory to use, in bytes; on the command line also as 500MB or 2GB", default=2_000_000_000,
            kind=int, least=1),
))  # fmt: skip
FEATURES = Settings((
    Setting("template", "features of tokens, such as 'w[-1]|w[0] w.suffix3[0]' (default: the usual windows)", kind=str,
            metavar="TEMPLATES"),
    Setting("min_count", "features that occur less often are left out", default=1, kind=int, least=1, metavar="N"),
    Setting("longest", "words: spans of so many characters may be unknown words", default=12, kind=int, least=1,
            most=64, metavar="N"),
))  # fmt: skip
SCORING = Settings((
    Setting("quality", "file with a number for each candidate, the larger the better", kind=str, metavar="FILE"),
    Setting("score", "function of a candidate's text and the list of its sentence's references that gives a number",
            kind=str, metavar="MODULE:FUNCTION"),
    Setting("references", "files with a reference of each sentence a line, commas between the files", kind=str,
            metavar="FILE,..."),
))  # fmt: skip


def _of_all() -> Settings:
    """The settings of all learners, for a command line that takes those of any; each learner checks what it is
    given."""
    by_name = {s.name: s for settings in (ONLINE, AGGRESSIVE, FRANK_WOLFE, MIRA) for s in reversed([*settings])}
    by_name["C"] = Setting("C", "weight of the losses, or bound of the multipliers", above=0.0)
    return Settings(tuple(by_name.values()))


ALL_LEARNERS = _of_all()
