"""The losses, a file each; a loss comes to life by its line here, or by its place where it is outside the package."""

from blocksvm.base.registry import Registry

LOSSES = Registry(
    "loss",
    "blocksvm.losses.loss:Loss",
    {
        "hinge": "blocksvm.losses.hinge:HINGE",
        "squared-hinge": "blocksvm.losses.hinge:SQUARED_HINGE",
        "logistic": "blocksvm.losses.logistic:LOGISTIC",
        "epsilon-insensitive": "blocksvm.losses.epsilon_insensitive:EPSILON_INSENSITIVE",
        "squared-epsilon-insensitive": "blocksvm.losses.epsilon_insensitive:SQUARED_EPSILON_INSENSITIVE",
    },
)
check_loss, get_loss = LOSSES.check, LOSSES.load
