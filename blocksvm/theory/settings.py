"""The settings of reports on the margin and on regret; imports nothing heavy."""

from blocksvm.base.memory import MEMORY
from blocksvm.base.settings import SEED, Setting, Settings
from blocksvm.training.run_settings import FREE, RUN_SETTINGS, Bias

MARGIN_SETTINGS = Settings((
    Setting("C", "weight of the losses of a soft margin (default: a hard margin)", above=0.0),
    Bias("bias", "value of a regularised constant feature (0: a plane through the origin), or free: an intercept that "
         "is not regularised (default)", default=FREE, least=0.0, metavar="B|free"),
    Setting("tol", "largest relative distance between the two bounds of the margin; of a soft margin, the certified "
            "relative gap", default=1e-3, above=0.0, below=1.0),
    Setting("least_margin", "smallest hard margin to look for, as a share of the largest norm",
            default=1e-3, above=0.0, below=1.0),
    Setting("epochs", "most epochs of the perceptron, shown beside Novikoff's bound (0: none)", default=20,
            kind=int, least=0, metavar="N"),
    *(RUN_SETTINGS[name] for name in ("memory", "seed", "max_seconds")),
    Setting("max_outer", "most outer iterations of each training", default=1000, kind=int, least=1, metavar="N"),
))  # fmt: skip
REPLAY = Settings((
    Setting("order", "order of the rows: stored (default) or shuffled (the default of train)", "stored", str,
            ("stored", "shuffled")),
    SEED, MEMORY,
    Setting("average", "also measure the mean of the weights", False, bool),
    Setting("batch", "for pegasos: rows in a round", 1, int, metavar="K"),
))  # fmt: skip
MAX_ROWS = Setting("max_rows", "only the first N rows (default: all)", None, int, least=1)
