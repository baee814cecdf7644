"""The registry of losses by name: one file and one line here for each; a loss outside the package is named by its
place."""

from blocksvm.base.errors import InputError, option
from blocksvm.base.registry import Registry
from blocksvm.base.user_code import by_user

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
    from blocksvm.losses.loss import Loss

    if not isinstance(loss, Loss):
        raise InputError(f"{option('loss', loss)}: is no loss; give its name, or a Loss")
    if loss.name in LOSSES and get_loss(loss.name) is loss:
        return loss.name
    place = loss.place()
    by_user(place)
    return place


def require(name: str, part: str, owner: str):
    """The ``Loss`` of this name.  Raises InputError, which names others, where it lacks ``part``, one of ``PARTS``."""
    loss = get_loss(name)
    if getattr(loss, part) is None:
        fit = ", ".join(other for other in LOSSES if getattr(get_loss(other), part) is not None)
        raise InputError(f"{option('loss', name)}: has no {PARTS[part]}; for {owner} choose one of {fit}")
    return loss
