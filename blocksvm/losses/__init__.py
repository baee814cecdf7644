"""The registry of losses by name: one file and one line here for each; a loss outside the package is named by its
location."""

from blocksvm.base.errors import InputError, option
from blocksvm.base.registry import Registry

LOSSES = Registry(
    "loss",
    ("blocksvm.losses.loss:Loss",),
    {
        "hinge": "blocksvm.losses.box:HINGE",
        "squared-hinge": "blocksvm.losses.box:SQUARED_HINGE",
        "logistic": "blocksvm.losses.logistic:LOGISTIC",
        "perceptron": "blocksvm.losses.box:PERCEPTRON",
        "epsilon-insensitive": "blocksvm.losses.box:EPSILON_INSENSITIVE",
        "squared-epsilon-insensitive": "blocksvm.losses.box:SQUARED_EPSILON_INSENSITIVE",
        "squared": "blocksvm.losses.box:SQUARED",
        "absolute": "blocksvm.losses.box:ABSOLUTE",
        "huber": "blocksvm.losses.box:HUBER",
    },
)
get_loss = LOSSES.load
DEFAULT, DEFAULT_OF_NUMBERS = "hinge", "squared"
# functions that a loss may lack, as error messages name them
PARTS = {
    "conjugate": "conjugate, which a dual and its certificate are made of",
    "aware_step": "importance-aware step",
    "link": "link from decision values to probabilities",
    "second_derivative": "second derivative",
}


def check_loss(loss) -> str:
    """The name of a loss, one of ``LOSSES`` or MODULE:ATTRIBUTE; of a ``Loss`` its name in the registry or its
    location.  Raises InputError for anything else."""
    return LOSSES.check(loss) if isinstance(loss, str) else LOSSES.name_of(loss)


def require(name: str, part: str, owner: str):
    """The ``Loss`` of this name.  Raises InputError, which names others, where it lacks ``part``, one of ``PARTS``."""
    loss = get_loss(name)
    if not loss.has(part):
        others = [get_loss(other) for other in LOSSES]
        fit = [one.name for one in others if one.has(part) and one.of_numbers == loss.of_numbers]
        raise InputError(f"{option('loss', name)}: has no {PARTS[part]}; for {owner} choose one of {', '.join(fit)}")
    return loss
