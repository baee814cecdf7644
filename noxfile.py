"""Sessions of nox: the tests with other releases and other Pythons than those of the checkout's own environment, which
tools/test has.  ``pip install nox uv``, then ``nox``, or ``nox -s oldest``; what follows ``--`` goes to pytest."""

from pathlib import Path

import nox

nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False
PYTEST = ("python", "-m", "pytest", "-n", "2", "--dist", "loadfile")


def files(name: str) -> list[str]:
    return Path("tests", name).read_text().split()


@nox.session
def oldest(session: nox.Session) -> None:
    """With the oldest releases that pyproject.toml claims: files (h5py, codecs), kernels (numba), mathematics (numpy,
    scipy); on another processor's linear algebra, every access to an array of the kernels checked."""
    session.install("--resolution", "lowest-direct", "-e", ".[test]")
    switches = {"NUMBA_BOUNDSCHECK": "1", "OPENBLAS_CORETYPE": "Haswell"}
    session.run(*PYTEST, *(session.posargs or files("core.txt")), env=switches)


@nox.session(python=["3.12", "3.13", "3.14"])
def pythons(session: nox.Session) -> None:
    """With newer Pythons that this machine has: the quick tests of what needs little more than the package."""
    session.install("-e", ".", "pytest", "pytest-xdist", "pytest-timeout", "hypothesis")
    session.run(*PYTEST, *(session.posargs or ("-m", "not slow", *files("pythons.txt"))))


@nox.session(default=False)
def cloud(session: nox.Session) -> None:
    """S3's dialect against moto's server: once a day, ``nox -s cloud``."""
    session.install("-e", ".[test,test-cloud]")
    session.run(*PYTEST, "tests/objects")
