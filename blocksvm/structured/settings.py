"""The settings of structured learners, of a run of one, and of the tasks; imports nothing heavy."""

from dataclasses import replace

from blocksvm.base.memory import MEMORY
from blocksvm.base.settings import SEED, Setting, Settings

C = Setting("C", "weight of the losses: a larger one fits more closely", default=1.0, above=0.0)
MEAN, LAST = "mean", "last"
WEIGHTS = Setting(
    "weights", "weights of the model: the mean over all updates, or the last", default=MEAN, kind=str,
    choices=(MEAN, LAST),
)  # fmt: skip
PREDICTED, MAX_LOSS = "predicted", "max-loss"
AGAINST = Setting(
    "against", "output that an update moves away from: the one predicted, with the root of its loss as margin, or that "
    "of the largest score + loss (max-loss), with its loss as margin", default=PREDICTED, kind=str,
    choices=(PREDICTED, MAX_LOSS),
)  # fmt: skip
MIRA = Settings((
    Setting("C", "upper bound of the multipliers", default=0.01, above=0.0),
    Setting("k", "number of best outputs that an update moves away from", default=5, kind=int, least=1, most=1000),
    Setting("oracles", "number of best outputs, by their losses, that an update moves towards", default=1, kind=int,
            least=1, most=1000),
    Setting("slack", "a slack variable for each constraint (own) or for each example (shared)", default="own",
            kind=str, choices=("own", "shared")),
    Setting("at_once", "examples in one update, whose constraints are met together", default=1, kind=int, least=1),
    WEIGHTS,
))  # fmt: skip
FRANK_WOLFE = Settings((C, Setting("tol", "certified relative gap at which training ends", default=1e-2, least=0.0)))
ONLINE = Settings((WEIGHTS,))
AGGRESSIVE = Settings((AGAINST, WEIGHTS))

RUN = Settings((
    Setting("epochs", "most passes over the examples", default=10, kind=int, least=1, metavar="N"),
    SEED,
    replace(MEMORY, help="memory to use, in bytes, or as 500MB or 2GB (default 2GB)", default=2_000_000_000),
))  # fmt: skip
FEATURES = Settings((
    Setting("template", "features of tokens, e.g. 'w[-1]|w[0] w.suffix3[0]' (default: windows of columns)", kind=str,
            metavar="TEMPLATES"),
    Setting("min_count", "leave out features that occur fewer than N times", default=1, kind=int, least=1, metavar="N"),
    Setting("tags", "for words: the words to learn from are written word/TAG, and tags are predicted, too",
            default=False, kind=bool),
    Setting("longest", "for words: most characters of an unknown word", default=12, kind=int, least=1, most=64,
            metavar="N"),
))  # fmt: skip
SCORING = Settings((
    Setting("quality", "file with a number for each candidate; larger is better", kind=str, metavar="FILE"),
    Setting("score", "bleu, or a function of a candidate's text and its sentence's references that returns a number",
            kind=str, metavar="bleu|MODULE:FUNCTION"),
    Setting("references", "files with a reference for each sentence, one a line; separate files by commas", kind=str,
            metavar="FILE,..."),
))  # fmt: skip

OF_TOKENS = FEATURES.without("tags", "longest")
OF_TASKS = FEATURES + SCORING  # of all our tasks, each of which declares what it takes of them
# the settings of all learners, for the command line; each learner checks those that it gets
BY_NAME = {s.name: s for settings in (ONLINE, AGGRESSIVE, FRANK_WOLFE, MIRA) for s in reversed([*settings])}
BY_NAME["C"] = Setting("C", "weight of the losses, or upper bound of the multipliers", above=0.0)
ALL_LEARNERS = Settings(tuple(BY_NAME.values()))
