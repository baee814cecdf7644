"""The public names, options and defaults change on purpose only."""

from support.public_api import FILE, listing


def test_the_public_api_is_the_one_that_is_written_down():
    told, now = FILE.read_text().splitlines(), listing().splitlines()
    gone, new = sorted(set(told) - set(now)), sorted(set(now) - set(told))
    assert (gone, new) == ([], []), "if that is meant: PYTHONPATH=.:tests python -m support.public_api"
    assert told == now
