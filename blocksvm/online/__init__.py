"""The online learners: their rules, a file a family, in rules/, and the machine around them.

A learner comes to life by its line here, or by its location, ``module:attribute``, where it is outside the package.
"""

from blocksvm.base.registry import Registry

# by the file of its family in rules/, where a learner has its name in capitals
FAMILIES = {
    "perceptron": ("perceptron", "perceptron-bias"),
    "passive_aggressive": ("pa", "pa1", "pa2"),
    "mira": ("mira",),
    "confidence": ("cw-var", "cw-stdev", "arow", "scw1", "scw2"),
    "gradient": ("ogd", "forel", "pegasos"),
    "mirror": ("omd",),
    "sparse": ("subgradient", "fobos", "hf-fobos"),
    "adagrad": ("adagrad-rda", "adagrad-rda-squares", "adagrad-fobos", "ftrl"),
    "nag": ("nag",),
    "coin": ("coin",),
    "auto": ("auto",),
}
LEARNERS = Registry(
    "learner",
    ("blocksvm.online.learner:Learner",),
    {
        name: f"blocksvm.online.rules.{family}:{name.upper().replace('-', '_')}"
        for family, names in FAMILIES.items()
        for name in names
    },
)
get_learner = LEARNERS.load
