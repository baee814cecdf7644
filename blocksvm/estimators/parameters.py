"""Constructors of estimators, generated from settings: each setting is a parameter with its default."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from blocksvm.base.settings import REQUIRED, Setting


@dataclass(frozen=True)
class Parameter:
    """A constructor's parameter: its name, its default, and its help text."""

    name: str
    default: object
    help: str

    @classmethod
    def of(cls, setting: Setting) -> Parameter:
        """The parameter of a solver's or learner's setting; the default of a required one is None."""
        return cls(setting.name, None if setting.default is REQUIRED else setting.default, setting.described())


def parameters_of(settings: Iterable[Setting], *without: str, **defaults) -> list[Parameter]:
    """The parameters of settings, except ``without``; defaults: in place of those of the settings."""
    parameters = [Parameter.of(setting) for setting in settings if setting.name not in without]
    return [Parameter(p.name, defaults.get(p.name, p.default), p.help) for p in parameters]


def with_parameters(*parameters: Parameter) -> Callable[[type], type]:
    """A class decorator: the constructor takes these by keyword and stores each under its name, as scikit-learn
    requires; the docstring of the class lists them."""

    def give(owner: type) -> type:
        known = {parameter.name: parameter.default for parameter in parameters}

        def __init__(self, **values):
            unknown = ", ".join(sorted(set(values) - set(known)))
            if unknown:
                raise TypeError(f"{type(self).__name__}: takes no {unknown}; it takes {', '.join(known)}")
            for name, default in known.items():
                setattr(self, name, values.get(name, default))

        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=known[name]) for name in known]
        __init__.__signature__ = inspect.Signature([first, *more])
        __init__.__qualname__ = f"{owner.__qualname__}.__init__"
        owner.__init__ = __init__
        owner.parameters = {parameter.name: parameter for parameter in parameters}
        lines = [f"    {parameter.name}: {parameter.help}" for parameter in parameters]
        owner.__doc__ = "\n".join([inspect.cleandoc(owner.__doc__ or ""), "", "Parameters:", *lines])
        return owner

    return give
