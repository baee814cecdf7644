"""The online learners: their rules, a file a family, in rules/, and the machine around them.

A learner comes to life by its line here, or by its location, ``module:attribute``, where it is outside the package.
"""

from blocksvm.base.registry import Registry

LEARNERS = Registry(
    "learner",
    ("blocksvm.online.learner:Learner",),
    {
        "perceptron": "blocksvm.online.rules.perceptron:PERCEPTRON",
        "perceptron-bias": "blocksvm.online.rules.perceptron:PERCEPTRON_BIAS",
        "pa": "blocksvm.online.rules.passive_aggressive:PA",
        "pa1": "blocksvm.online.rules.passive_aggressive:PA1",
        "pa2": "blocksvm.online.rules.passive_aggressive:PA2",
        "mira": "blocksvm.online.rules.mira:MIRA",
        "cw-var": "blocksvm.online.rules.confidence:CW_VAR",
        "cw-stdev": "blocksvm.online.rules.confidence:CW_STDEV",
        "arow": "blocksvm.online.rules.confidence:AROW",
        "scw1": "blocksvm.online.rules.confidence:SCW1",
        "scw2": "blocksvm.online.rules.confidence:SCW2",
        "ogd": "blocksvm.online.rules.gradient:OGD",
        "forel": "blocksvm.online.rules.gradient:FOREL",
        "pegasos": "blocksvm.online.rules.gradient:PEGASOS",
        "omd": "blocksvm.online.rules.mirror:OMD",
        "subgradient": "blocksvm.online.rules.sparse:SUBGRADIENT",
        "fobos": "blocksvm.online.rules.sparse:FOBOS",
        "hf-fobos": "blocksvm.online.rules.sparse:HF_FOBOS",
        "adagrad-rda": "blocksvm.online.rules.adagrad:ADAGRAD_RDA",
        "adagrad-rda-squares": "blocksvm.online.rules.adagrad:ADAGRAD_RDA_SQUARES",
        "adagrad-fobos": "blocksvm.online.rules.adagrad:ADAGRAD_FOBOS",
        "nag": "blocksvm.online.rules.nag:NAG",
        "ftrl": "blocksvm.online.rules.adagrad:FTRL",
        "coin": "blocksvm.online.rules.coin:COIN",
        "auto": "blocksvm.online.rules.auto:AUTO",
    },
)
get_learner = LEARNERS.load
