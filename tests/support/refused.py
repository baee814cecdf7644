"""What Python calls refuse."""

import pytest

from blocksvm.base.errors import InputError


def refused(sentence: str, call, *arguments, **options) -> None:
    """The call is an InputError that says this, a regular expression."""
    with pytest.raises(InputError, match=sentence):
        call(*arguments, **options)
