"""Outputs with structure: labels of a sequence, trees, segmentations, lists of candidates; learners over one protocol.

A task or a learner is a line here, or a place (module:attribute) outside the package.
"""

from blocksvm.base.registry import Registry

LEARNERS = Registry(
    "learner",
    ("blocksvm.structured.structured_learner:StructuredLearner",),
    {
        "perceptron": "blocksvm.structured.structured_additive:PERCEPTRON",
        "pa": "blocksvm.structured.structured_additive:PA",
        "pa1": "blocksvm.structured.structured_additive:PA1",
        "pa2": "blocksvm.structured.structured_additive:PA2",
        "mira": "blocksvm.structured.structured_mira:MIRA",
        "frank-wolfe": "blocksvm.structured.frank_wolfe:FRANK_WOLFE",
    },
)
get_learner = LEARNERS.load
TASKS = Registry(
    "task",
    ("blocksvm.structured.task:StructuredTask",),
    {
        "tags": "blocksvm.structured.labelling:TAGS",
        "chunks": "blocksvm.structured.labelling:CHUNKS",
        "trees": "blocksvm.structured.parsing:TREES",
        "words": "blocksvm.structured.segmenting:WORDS",
        "tagged-words": "blocksvm.structured.tagging:TAGGED_WORDS",
        "candidates": "blocksvm.structured.tuning:CANDIDATES",
    },
)
get_task = TASKS.load
