"""Settings as data: each has its kind, range, default and help, from which options, keywords and texts are made.

A solver, learner, loss or format declares its settings once.  The command line (``cli/options.py``), Python keywords,
``info``, ``--help-solver`` and model files are generated from that declaration.  Imports nothing heavy.
"""

import math
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, fields
from operator import ge, gt, le, lt

from blocksvm.base.errors import InputError, one_of, option

LARGEST_SEED = 2**63 - 1
# ends of a number's range, and the range in words, of which the first that fits is said
RANGES = (
    ("above", "most", "above {above:g} and at most {most:g}"),
    ("above", "below", "between {above:g} and {below:g}"),
    ("least", "most", "from {least:g} to {most:g}"),
    ("least", "{least:g} or more"),
    ("above", "{finite} above {above:g}"),
    ("below", "{finite} below {below:g}"),
    ("most", "{finite} of at most {most:g}"),
    ("{finite}",),
)
REQUIRED = object()  # in place of a default: the setting must be given, or known from the data


@dataclass(frozen=True)
class Setting:
    """One setting.

    kind: float, int, str, bool (an option without a value), or a function that makes the value of what was given and
    raises InputError for what it is not; many: on a command line, how many values it has, "?" where it may lack the
    one, which is then "-", or "append" where it may be repeated.
    """

    name: str  # the Python keyword, from which the option is made
    help: str  # what it is, with its unit
    default: object = None  # its value where it is not given; None: off, REQUIRED: there is none
    kind: Callable = float
    choices: tuple = ()  # the values that a str or a number may have
    above: float | None = None  # the open and closed ends of a number's range
    least: float | None = None
    below: float | None = None
    most: float | None = None
    infinite: bool = False  # inf is allowed
    metavar: str | tuple[str, ...] | None = None  # what the help text shows in place of the value
    many: int | str = 1
    also: str | None = None  # a second name of its option

    def described(self) -> str:
        """The help, the choices and the default in one line."""
        text = self.help
        choices = [f"{choice:g}" if isinstance(choice, float) else choice for choice in self.choices]
        if choices and not any(choice in text for choice in choices):
            text += f": {', '.join(choices)}"
        if self.default is REQUIRED:
            return f"{text} (required, unless it follows from the rows)"
        if self.default is None or self.default is False or "default" in text:
            return text
        return f"{text} (default {self.default:{'g' if isinstance(self.default, float) else ''}})"

    def checked(self, value):
        """The value in its kind; InputError where it is of another kind or out of range.  None stays None."""
        if value is None or isinstance(value, list) and self.many != 1:
            return value
        if self.kind is bool:
            if not isinstance(value, bool | int) or value not in (0, 1):
                raise InputError(f"{option(self.name, value)}: must be True or False")
            return bool(value)
        if self.kind is str:
            if self.choices and value not in self.choices:
                raise InputError(f"{option(self.name, value)}: {one_of(str(value), self.choices)}")
            return str(value)
        if self.kind in (float, int):
            return self._number(value)
        return self.kind(value)

    def _number(self, value):
        try:
            number = self.kind(value) if isinstance(value, str) else value
            whole = self.kind is int
            if isinstance(number, bool) or (whole and int(number) != number):
                raise ValueError
            number = int(number) if whole else float(number)
        except (TypeError, ValueError, OverflowError):
            what = "a whole number" if self.kind is int else "a number"
            raise InputError(f"{option(self.name, value)}: is not {what}") from None
        ends = ((self.above, gt), (self.least, ge), (self.below, lt), (self.most, le))
        inside = all(end is None or holds(number, end) for end, holds in ends)
        finite = self.infinite or not math.isinf(number)
        inside &= finite and not math.isnan(number) and (not self.choices or number in self.choices)
        if not inside:
            raise InputError(f"{option(self.name, value)}: must be {self.range_text()}")
        return number

    def range_text(self) -> str:
        """The range in words: 'a finite number above 0', '1 or more', 'between 0.5 and 1'."""
        if self.choices:
            return "one of " + ", ".join(f"{choice:g}" for choice in self.choices)
        finite = "a number" if self.infinite else "a finite number"
        words = next(words for *ends, words in RANGES if all(getattr(self, end) is not None for end in ends))
        return words.format(finite=finite, **vars(self)).replace(f"{LARGEST_SEED:g}", "2**63 - 1")


SEED = Setting("seed", "seed of all random orders", default=0, kind=int, least=0, most=LARGEST_SEED)


@dataclass(frozen=True)
class Settings:
    """What something takes, in the order of its help; exclusive: pairs that say the same thing, one of which counts."""

    declared: tuple[Setting, ...] = ()
    exclusive: tuple[tuple[str, str], ...] = ()

    def __post_init__(self):
        names = [setting.name for setting in self.declared]
        if len(set(names)) < len(names):
            raise TypeError(f"a setting is declared twice among {', '.join(names)}")

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.declared)

    def __contains__(self, name: str) -> bool:
        return any(setting.name == name for setting in self.declared)

    def __getitem__(self, name: str) -> Setting:
        return next(setting for setting in self.declared if setting.name == name)

    def __add__(self, more: "Settings | tuple[Setting, ...]") -> "Settings":
        exclusive = self.exclusive + getattr(more, "exclusive", ())
        return Settings((*self.declared, *more), exclusive)

    def names(self) -> list[str]:
        return [setting.name for setting in self.declared]

    def without(self, *names: str) -> "Settings":
        return Settings(tuple(setting for setting in self.declared if setting.name not in names), self.exclusive)

    def only(self, names: Container[str]) -> "Settings":
        return Settings(tuple(setting for setting in self.declared if setting.name in names), self.exclusive)

    def checked(self, values: Mapping, owner: str) -> dict:
        """The settings that have a value (name -> value, None for what has none), each in its kind; InputError for one
        that ``owner`` does not take, and for a value out of range."""
        checked = {}
        for name, value in values.items():
            if value is None:
                continue
            if name not in self:
                takes = ", ".join(option(known) for known in self.names()) or "no settings"
                raise InputError(f"{option(name)}: {owner} does not accept it; it accepts {takes}")
            checked[name] = self[name].checked(value)
        for one, other in self.exclusive:
            if one in checked and other in checked:
                raise InputError(f"{option(one)} and {option(other)} say the same thing; give one of them")
        return checked

    def resolve(self, values: Mapping, owner: str, known: Mapping = {}) -> dict:
        """Every setting's value: as given, else as ``known`` from the data, else its default; InputError as
        ``checked`` raises it, and for a setting that is missing."""
        values = self.checked(values, owner)
        replaced = {one if other in values else other for one, other in self.exclusive if {one, other} & set(values)}
        resolved = {}
        for setting in self.declared:
            value = values.get(setting.name)
            if value is None:
                value = known.get(setting.name)
            if value is None and setting.name not in replaced:
                if setting.default is REQUIRED:
                    others = [other for pair in self.exclusive if setting.name in pair for other in pair]
                    ways = [setting.name, *(other for other in others if other != setting.name)]
                    raise InputError(f"{owner} needs {' or '.join(map(option, ways))}")
                value = setting.default
            resolved[setting.name] = setting.checked(value)
        return resolved

    def restored(self, saved: Mapping) -> dict:
        """The resolved settings that ``plain`` made JSON values of; names that are no longer known are left out."""
        return {s.name: s.checked(saved[s.name]) for s in self.declared if saved.get(s.name) is not None}


def split_fields(owner: type, keywords: Mapping, hidden: tuple[str, ...] = ()) -> tuple[dict, dict]:
    """Keywords without those that are None: (those that are fields of the dataclass ``owner`` and not hidden, the
    others); ``n_jobs`` as ``n_threads`` counts them."""
    names = {field.name for field in fields(owner)} - set(hidden)
    chosen = {name: value for name, value in keywords.items() if value is not None}
    if "n_jobs" in chosen:
        chosen["n_jobs"] = n_threads(chosen["n_jobs"])
    return {k: v for k, v in chosen.items() if k in names}, {k: v for k, v in chosen.items() if k not in names}


def n_threads(n_jobs: int | None) -> int:
    """Threads as joblib counts them: None is 1, or as ``parallel_config`` says, -1 as many as processors; of a cluster
    it counts those of all machines, which are none of this process."""
    if n_jobs is None and "joblib" not in sys.modules:
        return 1  # nobody has configured it
    from joblib import effective_n_jobs  # some time to import
    from joblib.parallel import ThreadingBackend, get_active_backend

    if n_jobs == 0:
        raise InputError(f"{option('n_jobs', 0)}: must be 1 or more, or -1 for as many as processors")
    if hasattr(get_active_backend()[0], "client"):
        return ThreadingBackend().effective_n_jobs(n_jobs)
    return effective_n_jobs(n_jobs)


def plain(value):
    """A value as JSON holds it: numbers that JSON has not (inf, nan) as strings, which ``Setting.checked`` reads."""
    if isinstance(value, Mapping):
        return {f"{name:g}" if isinstance(name, float) else str(name): plain(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def shown(values: Mapping) -> str:
    """Settings as a sentence names them: 'step 0.3, mirror p-norm'; those that are off are left out."""
    parts = []
    for name, value in values.items():
        if value is None or value is False:
            continue
        if isinstance(value, list):  # a matrix of costs
            text = f"{name} of {len(value)} labels"
        else:
            text = name if value is True else f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        parts.append(text)
    return ", ".join(parts)
