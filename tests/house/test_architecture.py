"""What linters do not see of the rooms: registries, quick help."""

import subprocess
import sys

import pytest

from blocksvm import structured
from blocksvm.base.user_code import object_at
from blocksvm.commands import COMMANDS
from blocksvm.formats import FORMATS
from blocksvm.losses import LOSSES
from blocksvm.online import LEARNERS
from blocksvm.online.methods import SOLVERS


@pytest.mark.parametrize("registry", [LOSSES, LEARNERS, SOLVERS, FORMATS, structured.LEARNERS, structured.TASKS])
def test_a_registry_names_objects_of_its_class(registry):
    wanted = tuple(map(object_at, registry.classes))
    assert all(isinstance(registry.load(name), wanted) for name in registry)


@pytest.mark.process
@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_imports_nothing_heavy(command):
    """Quick start is a matter of what is imported, which does not depend on the machine."""
    code = (
        "import sys, runpy; sys.argv = ['x', '--help']\n"
        "try: runpy.run_module('blocksvm.%s', run_name='__main__')\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'numpy', 'numba', 'h5py', 'scipy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)" % command
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout
