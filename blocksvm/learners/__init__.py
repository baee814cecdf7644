"""The online learners: their rules, a file a family, in rules/; the machine around them in engine/.

A learner comes to life by its line here, or by its place, ``module:attribute``, where it is outside the package.
"""

from blocksvm.base.registry import Registry

LEARNERS = Registry(
    "learner",
    ("blocksvm.learners.engine.learner:Learner",),
    {
        "perceptron": "blocksvm.learners.rules.perceptron:PERCEPTRON",
        "perceptron-bias": "blocksvm.learners.rules.perceptron:PERCEPTRON_BIAS",
        "pa": "blocksvm.learners.rules.passive_aggressive:PA",
        "pa1": "blocksvm.learners.rules.passive_aggressive:PA1",
        "pa2": "blocksvm.learners.rules.passive_aggressive:PA2",
        "mira": "blocksvm.learners.rules.mira:MIRA",
        "cw-var": "blocksvm.learners.rules.confidence:CW_VAR",
        "cw-stdev": "blocksvm.learners.rules.confidence:CW_STDEV",
        "arow": "blocksvm.learners.rules.confidence:AROW",
        "scw1": "blocksvm.learners.rules.confidence:SCW1",
        "scw2": "blocksvm.learners.rules.confidence:SCW2",
        "ogd": "blocksvm.learners.rules.gradient:OGD",
        "forel": "blocksvm.learners.rules.gradient:FOREL",
        "pegasos": "blocksvm.learners.rules.gradient:PEGASOS",
        "omd": "blocksvm.learners.rules.mirror:OMD",
        "subgradient": "blocksvm.learners.rules.sparse:SUBGRADIENT",
        "fobos": "blocksvm.learners.rules.sparse:FOBOS",
        "hf-fobos": "blocksvm.learners.rules.sparse:HF_FOBOS",
        "adagrad-rda": "blocksvm.learners.rules.adagrad:ADAGRAD_RDA",
        "adagrad-rda-squares": "blocksvm.learners.rules.adagrad:ADAGRAD_RDA_SQUARES",
        "adagrad-fobos": "blocksvm.learners.rules.adagrad:ADAGRAD_FOBOS",
        "nag": "blocksvm.learners.rules.nag:NAG",
        "ftrl": "blocksvm.learners.rules.ftrl:FTRL",
        "coin": "blocksvm.learners.rules.coin:COIN",
        "auto": "blocksvm.learners.rules.auto:AUTO",
    },
)
get_learner = LEARNERS.load
