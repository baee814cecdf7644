"""Input formats, one a file: bytes of text to rows.  This file knows which there are, and tells them by first bytes."""

from __future__ import annotations

from importlib import import_module

from blocksvm.errors import InputError, said

# name -> where its Format is; loaded when it is first wanted
FORMATS = {
    "svmlight": "blocksvm.formats.svmlight:SVMLIGHT",
    "svmlight-named": "blocksvm.formats.multilabel:NAMED_LABELS",
    "multilabel": "blocksvm.formats.multilabel:MULTILABEL",
    "vw": "blocksvm.formats.vw:VW",
}
AUTO = "auto"


def format_named(name: str):
    """The Format of this name, or of a "module:attribute" outside the package; InputError where there is none."""
    place = FORMATS.get(name, name)
    module, colon, attribute = place.partition(":")
    if not colon:
        known = ", ".join((AUTO, *FORMATS))
        raise InputError(f"{said('format', name)}: no such format; choose one of {known}, or module:attribute")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"{said('format', name)}: cannot be loaded ({error}); name an importable format") from error


def sniffed(head: bytes, name: str) -> str:
    """The name of the format that the first bytes of an input look like most; svmlight where they look like none."""
    scores = {format_: format_named(format_).score(head, name) for format_ in FORMATS}
    return max(scores, key=scores.get)


def name_of(inputs, name: str) -> str:
    """This name, or, of 'auto', that of the format that the ``TextInputs`` look like."""
    return sniffed(inputs.head(), inputs.names[0]) if name == AUTO else name
