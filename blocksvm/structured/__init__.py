"""Outputs with structure: labels of a sequence, trees, segmentations, lists of candidates; learners over one protocol.

A task or a learner is a line here, or a module:attribute outside the package.
"""

from blocksvm.base.registry import Registry

LEARNERS = Registry(
    "learner",
    ("blocksvm.structured.learners:StructuredLearner",),
    {name: f"blocksvm.structured.learners:{name.upper()}" for name in ("perceptron", "pa", "pa1", "pa2", "mira")}
    | {"frank-wolfe": "blocksvm.structured.frank_wolfe:FRANK_WOLFE"},
)
get_learner = LEARNERS.load
TASKS = Registry(
    "task",
    ("blocksvm.structured.tasks:StructuredTask",),
    {
        "tags": "blocksvm.structured.sequences:TAGS",
        "chunks": "blocksvm.structured.sequences:CHUNKS",
        "trees": "blocksvm.structured.trees:TREES",
        "words": "blocksvm.structured.lattices:WORDS",
        "candidates": "blocksvm.structured.candidates:CANDIDATES",
    },
)
get_task = TASKS.load
