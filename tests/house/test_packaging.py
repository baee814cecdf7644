"""The installation: the blocksvm command, its metadata, the oldest dependencies that it claims; quick help; and what a
release is made with: its version, the image, the conda recipe and the workflows are those of the package."""

import ast
import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from support.paths import ROOT

import blocksvm
from blocksvm import structured
from blocksvm.base.user_code import object_at
from blocksvm.cli.commands import COMMANDS, main
from blocksvm.formats import FORMATS
from blocksvm.losses import LOSSES
from blocksvm.online import LEARNERS
from blocksvm.online.methods import SOLVERS

PACKAGE = Path(blocksvm.__file__).parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BACKEND = PYPROJECT["project"], PYPROJECT["build-system"]["requires"]
RELEASE = ROOT / "tools" / "release"
RECIPE = yaml.safe_load((RELEASE / "recipe.yaml").read_text())
IMAGE = re.findall(r"^([A-Z]+) (.+)$", (RELEASE / "Dockerfile").read_text(), re.MULTILINE)
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").iterdir()}
CONDA = {"xxhash": "python-xxhash"}  # packages that have another name there


def run(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=ROOT)


def test_the_list_names_every_command_on_a_line(run_in_process):
    listed = run_in_process(main)
    assert (listed.code, listed.err) == (0, "")
    found = {line.split()[0]: line for line in listed.out.splitlines() if line.startswith("  ")}
    runnable = 'if __name__ == "__main__":'
    are_commands = {path.stem for path in PACKAGE.glob("[a-z]*.py") if runnable in path.read_text()}
    assert set(found) == set(COMMANDS) == are_commands
    assert all(len(line) <= 80 and len(line.split()) > 3 for line in found.values())
    assert run_in_process(main, "--help").out == listed.out


@pytest.mark.parametrize(("name", "advice"), [
    ("trian", "did you mean 'train'?"), ("Predict", "did you mean 'predict'?"), ("spilt", "did you mean 'split'?"),
    ("warmup", "run blocksvm alone to list the commands"), ("../train", "did you mean 'train'?"),
    ("", "run blocksvm alone to list the commands"),
])  # fmt: skip
def test_an_unknown_command_is_told_with_the_nearest(run_in_process, name, advice):
    told = run_in_process(main, name, "--help")
    assert (told.code, told.out) == (2, "")
    assert told.err == f"blocksvm: error: there is no command '{name}'; {advice}\n"


@pytest.mark.process
@pytest.mark.parametrize("line", ["info --help", "train nowhere.h5 m.h5", "predict", "info --version"])
def test_a_command_is_the_module_of_its_name(line):
    own, through = run(*f"blocksvm.{line}".split()), run("blocksvm", *line.split())
    assert (through.returncode, through.stdout, through.stderr) == (own.returncode, own.stdout, own.stderr)
    assert own.stdout or own.stderr


@pytest.mark.process
def test_the_script_is_the_module():
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="blocksvm")
    assert script.value == PROJECT["scripts"]["blocksvm"] == "blocksvm.__main__:entry"
    done = subprocess.run([Path(sys.executable).with_name("blocksvm"), "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"blocksvm {blocksvm.__version__}\n")


def test_what_the_package_offers_has_names_that_no_module_shares():
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    names = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(blocksvm.__all__) == names and all(hasattr(blocksvm, name) for name in names)
    assert names.isdisjoint(path.stem for path in PACKAGE.iterdir())


GROUPS = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
BOUND = re.compile(r"([A-Za-z0-9._-]+)(?:\[[a-z]+\])?(>=|==)([0-9.]+[0-9*])")


@pytest.mark.parametrize("group", GROUPS)
def test_every_dependency_has_a_lower_bound_and_groups_agree(group):
    """So that the oldest releases that are claimed can be installed (the session ``oldest`` of nox)."""
    assert all(BOUND.fullmatch(requirement) for requirement in GROUPS[group])
    others = {BOUND.fullmatch(one)[1]: one for name in GROUPS if name != group for one in GROUPS[name]}
    assert all(others.get(BOUND.fullmatch(one)[1], one) == one for one in GROUPS[group])


def test_what_is_installed_is_what_is_claimed():
    """In the session ``oldest`` exactly the lower bounds, elsewhere at least these."""
    for name, _, bound in (BOUND.fullmatch(one).groups() for one in (*GROUPS[""], *GROUPS["test"])):
        there, least = (
            tuple(int(part) for part in version.split(".")[:3] if part != "*")
            for version in (importlib.metadata.version(name), bound)
        )
        assert there == least if Path(sys.prefix).name == "oldest" and "*" not in bound else there >= least, name


@pytest.mark.parametrize("registry", [LOSSES, LEARNERS, SOLVERS, FORMATS, structured.LEARNERS, structured.TASKS])
def test_a_registry_names_objects_of_its_class(registry):
    wanted = tuple(map(object_at, registry.classes))
    assert all(isinstance(registry.load(name), wanted) for name in registry)


@pytest.mark.process
@pytest.mark.parametrize("line", ["", " --version", " train --help", *(f".{name} --help" for name in COMMANDS)])
def test_lists_and_help_import_nothing_heavy(line):
    """Quick start is a matter of what is imported, which does not depend on the machine."""
    code = (
        "import sys, runpy; del sys.argv[0]\n"
        "try: runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'numpy', 'numba', 'h5py', 'scipy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, *f"blocksvm{line}".split()], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage" in done.stdout or line == " --version"


def test_all_name_one_version_and_one_day():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    version, day = re.search(r"^## \[(.+)\] - (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE).groups()
    assert blocksvm.__version__ == cited["version"] == RECIPE["context"]["version"] == version
    assert str(cited["date-released"]) == day
    assert cited["license"] == RECIPE["about"]["license"] == PROJECT["license"]


def test_the_wheel_needs_no_compiler():
    """It is pure; .ci/installed installs what it depends on from wheels alone."""
    found = importlib.metadata.distributions(name="blocksvm")  # that of the checkout has no such file
    told = {line for one in found for line in (one.read_text("WHEEL") or "").splitlines()}
    assert {line for line in told if line.startswith(("Root", "Tag"))} == {"Root-Is-Purelib: true", "Tag: py3-none-any"}
    assert [re.match(r"\w+", one)[0] for one in BACKEND] == ["setuptools"]


def test_the_conda_package_is_the_wheel():
    bounds = [re.fullmatch(r"([\w.-]+)(>=.+)", one).groups() for one in PROJECT["dependencies"]]
    wanted = ["python >=${{ python_min }}", *(f"{CONDA.get(name, name)} {bound}" for name, bound in bounds)]
    assert RECIPE["requirements"]["run"] == wanted
    assert {one.replace(" ", "") for one in RECIPE["requirements"]["host"]} >= set(BACKEND)
    assert f">={RECIPE['context']['python_min']}" == PROJECT["requires-python"]
    (entry,) = RECIPE["build"]["python"]["entry_points"]
    assert dict([entry.split(" = ")]) == PROJECT["scripts"] and RECIPE["build"]["noarch"] == "python"
    assert (RELEASE / RECIPE["tests"][1]["files"]["recipe"][0]).exists()


KERNEL = (
    "import tempfile, numpy as np; from blocksvm.kernels.columns import row_sq_norms; print(tempfile.gettempdir())\n"
    "row_sq_norms(np.array([0, 2]), np.arange(2, dtype=np.int32), np.array([3.0, 4.0]), np.empty(1))"
)


@pytest.mark.process
@pytest.mark.skipif(not os.path.ismount("/sys"), reason="no folder that root cannot write in either")
def test_what_is_written_in_the_image_lies_in_the_mounted_folder(tmp_path):
    """With its environment, where neither the working folder nor a home can be written; it has what the wheel needs."""
    image = dict(IMAGE)
    assert image["USER"] == "1000" and image["WORKDIR"] == image["VOLUME"] == "/data"
    copied = {name for name, rest in IMAGE if name == "COPY" and "--from" not in rest for name in rest.split()[:-1]}
    assert copied == {"pyproject.toml", PROJECT["readme"], *PROJECT["license-files"], "blocksvm"}
    (wheel,) = re.findall(r"install.* /wheels/(\S+)", "\n".join(rest for name, rest in IMAGE if name == "RUN"))
    assert f"/dist/{wheel})" in (ROOT / ".ci" / "installed").read_text()  # which has tried it
    told = dict(one.split("=") for one in shlex.split(image["ENV"].replace("/data", str(tmp_path))))
    assert told["HOME"] == str(tmp_path)
    env = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), **told, "HOME": "/sys/nobody"}
    (command,) = yaml.safe_load(image["ENTRYPOINT"])
    for line in ([Path(sys.executable).with_name(command), "--version"], [sys.executable, "-c", KERNEL]):
        done = subprocess.run(line, cwd="/sys", env=env, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path}\n"
    assert {path.relative_to(tmp_path).parts[:2] for path in tmp_path.rglob("*.nbc")} == {(".cache", "blocksvm")}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_calls_what_there_is_and_names_no_secret(name):
    workflow = WORKFLOWS[name]
    assert set(workflow) >= {True, "permissions", "jobs"}  # YAML takes "on" for true
    assert not re.search(r"secrets\.|://", str(workflow))
    for step in (step for job in workflow["jobs"].values() for step in job["steps"]):
        assert re.fullmatch(r"(actions|pypa)/[\w-]+@[\w/]+", step.get("uses", "actions/none@v1"))
        for line in step.get("run", "").splitlines():
            program = shlex.split(line)[0]
            assert os.access(ROOT / program, os.X_OK) if "/" in program else shutil.which(program), line


def test_each_python_that_is_claimed_is_tried_before_an_upload():
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    build, upload = (WORKFLOWS["release"]["jobs"][name] for name in ("build", "upload"))
    assert f".ci/installed {' '.join(claimed)}" in [step.get("run") for step in build["steps"]]
    assert sorted(build["steps"][1]["with"]["python-version"].split()) == claimed
    assert upload["needs"] == "build" and upload["permissions"] == {"id-token": "write"}
