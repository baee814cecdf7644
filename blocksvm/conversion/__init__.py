"""From other formats to a store: reading text, naming features, the external shuffle, renumbering.

Here are the settings of a split that are no part of the recipe; nothing heavy is imported.
"""

from dataclasses import replace

from blocksvm.base.settings import SEED, Setting, Settings

SPLIT = Settings((
    Setting("like", "read the rows by the settings, the idf and the scale of that store, e.g. for train --valid", None,
            str, metavar="STORE.h5"),
    Setting("weights", "file of the rows' weights, a number a line, in the order of the rows", None, str,
            metavar="FILE"),
    Setting("min_count", "drop features that occur in fewer than N rows", 1, int, least=1, metavar="N"),
    Setting("top_features", "keep the K features that tell classes apart best, by the chi-squared statistic of their "
            "presence", None, int, least=1, metavar="K"),
    Setting("codec", "lz4: compress the rows (default); none: write them as they are, some 1.6 times as large", "lz4",
            str, ("lz4", "none")),
    replace(SEED, help="seed of the rows' random order"),
    Setting("keep_order", "keep the rows in the order of the text", False, bool),
))  # fmt: skip
SKIP_BAD = Setting("skip_bad", "skip malformed lines; they are counted, and the first is shown", False, bool)
TEMP = Setting("temp", "folder for temporary files (default: beside the store)", None, str, metavar="DIR")
