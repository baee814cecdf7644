"""The registry of losses by name: one file and one line here for each; a loss outside the package is named by its
place."""

from blocksvm.base.errors import InputError, option
from blocksvm.base.registry import Registry

LOSSES = Registry(
    "loss",
    ("blocksvm.losses.loss:Loss",),
    {
        "hinge": "blocksvm.losses.hinge:HINGE",
        "squared-hinge": "blocksvm.losses.hinge:SQUARED_HINGE",
        "logistic": "blocksvm.losses.logistic:LOGISTIC",
        "perceptron": "blocksvm.losses.perceptron_loss:PERCEPTRON",
        "epsilon-insensitive": "blocksvm.losses.epsilon_insensitive:EPSILON_INSENSITIVE",
        "squared-epsilon-insensitive": "blocksvm.losses.epsilon_insensitive:SQUARED_EPSILON_INSENSITIVE",
        "squared": "blocksvm.losses.epsilon_insensitive:SQUARED_LOSS",
        "absolute": "blocksvm.losses.epsilon_insensitive:ABSOLUTE",
        "huber": "blocksvm.losses.huber:HUBER_LOSS",
    },
)
get_loss = LOSSES.load
DEFAULT, DEFAULT_OF_NUMBERS = "hinge", "squared"
# functions of a loss that may be None, as error messages name them
PARTS = {
    "conjugate": "conjugate, which a dual and its certificate are made of",
    "aware_step": "importance-aware step",
    "link": "link from decision values to probabilities",
    "second_derivative": "second derivative",
}


def check_loss(loss) -> str:
    """The name of a loss, one of ``LOSSES`` or MODULE:ATTRIBUTE; of a ``Loss`` its name in the registry or its place.
    Raises InputError for anything else."""
    if isinstance(loss, str):
        return LOSSES.check(loss)
    return LOSSES.name_of(loss)


def require(name: str, part: str, owner: str):
    """The ``Loss`` of this name.  Raises InputError, which names others, where it lacks ``part``, one of ``PARTS``."""
    loss = get_loss(name)
    if getattr(loss, part) is None:
        others = [get_loss(other) for other in LOSSES]
        fit = [one.name for one in others if getattr(one, part) is not None and one.of_numbers == loss.of_numbers]
        raise InputError(f"{option('loss', name)}: has no {PARTS[part]}; for {owner} choose one of {', '.join(fit)}")
    return loss
