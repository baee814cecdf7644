"""What a release is made with: its version, the image, the conda recipe and the workflows are those of the package."""

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
from support.places import ROOT

import blocksvm

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
RECIPE = yaml.safe_load((ROOT / "tools" / "release" / "recipe.yaml").read_text())
DOCKERFILE = [  # (instruction, its words)
    (line.split()[0], shlex.split(line.split(maxsplit=1)[1]))
    for line in (ROOT / "tools" / "release" / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    if line and not line.startswith("#")
]
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").iterdir()}
CONDA = {"xxhash": "python-xxhash"}  # names that conda-forge has for packages of the index


def test_all_name_one_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    released = re.search(r"^## \[([^]]+)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert blocksvm.__version__ == cited["version"] == RECIPE["context"]["version"] == released[1]
    assert str(cited["date-released"]) == released[2]
    assert cited["license"] == RECIPE["about"]["license"] == PROJECT["license"]


def test_the_wheel_needs_no_compiler():
    """It is pure; .ci/installed installs what it depends on from wheels alone."""
    found = importlib.metadata.distributions(name="blocksvm")  # that of the checkout has no such file
    told = {line for one in found for line in (one.read_text("WHEEL") or "").splitlines()}
    assert {line for line in told if line.startswith(("Root", "Tag"))} == {"Root-Is-Purelib: true", "Tag: py3-none-any"}
    assert [re.split(r"[<>=]", one)[0] for one in PYPROJECT["build-system"]["requires"]] == ["setuptools"]


def test_the_conda_package_depends_on_what_the_wheel_does():
    bounds = [re.fullmatch(r"([\w.-]+)(>=.+)", one).groups() for one in PROJECT["dependencies"]]
    assert RECIPE["requirements"]["run"] == [
        "python >=${{ python_min }}", *(f"{CONDA.get(name, name)} {bound}" for name, bound in bounds)
    ]  # fmt: skip
    assert f">={RECIPE['context']['python_min']}" == PROJECT["requires-python"]
    assert [f"{name} = {place}" for name, place in PROJECT["scripts"].items()] == RECIPE["build"]["python"][
        "entry_points"
    ]
    built = [one.replace(" ", "") for one in RECIPE["requirements"]["host"]]
    assert RECIPE["build"]["noarch"] == "python" and set(PYPROJECT["build-system"]["requires"]) <= set(built)
    assert all((ROOT / "tools" / "release" / file).is_file() for file in RECIPE["tests"][1]["files"]["recipe"])


def test_the_image_is_built_of_what_the_wheel_needs_and_runs_as_a_user():
    copied = {
        word for name, words in DOCKERFILE if name == "COPY" and "--from=build" not in words for word in words[:-1]
    }
    assert {"pyproject.toml", PROJECT["readme"], *PROJECT["license-files"], "blocksvm"} == copied
    assert all((ROOT / one).exists() for one in copied)
    tried = re.search(r"^wheel=.*/(blocksvm-\S+\.whl)\)$", (ROOT / ".ci" / "installed").read_text(), re.MULTILINE)
    installed = [words for name, words in DOCKERFILE if name == "RUN" and "install" in words and "pip" in words]
    assert [words[-1] for words in installed] == [f"/wheels/{tried[1]}"]
    last = dict(DOCKERFILE)
    assert last["USER"] == ["1000"] and last["WORKDIR"] == last["VOLUME"] == ["/data"]


KERNEL = """
import tempfile, numpy as np
from blocksvm.kernels.columns import row_sq_norms
row_sq_norms(np.array([0, 2]), np.arange(2, dtype=np.int32), np.array([3.0, 4.0]), np.empty(1))
print(tempfile.gettempdir())
"""


@pytest.mark.process
@pytest.mark.skipif(not os.path.ismount("/sys"), reason="no folder that root cannot write in either")
def test_in_the_image_all_that_is_written_lies_in_the_mounted_folder(tmp_path):
    """With its environment, where neither the working folder nor a home can be written."""
    (given,) = (words for name, words in DOCKERFILE if name == "ENV")
    told = {name: value.replace("/data", str(tmp_path)) for name, value in (one.split("=") for one in given)}
    assert told["HOME"] == str(tmp_path)
    env = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), **told, "HOME": "/sys/nobody"}
    (command,) = dict(DOCKERFILE)["ENTRYPOINT"][0].strip("[]").split()
    program = Path(sys.executable).with_name(command)
    for line in ([program, "--version"], [sys.executable, "-c", KERNEL]):
        done = subprocess.run(line, cwd="/sys", env=env, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path}\n"
    assert {path.relative_to(tmp_path).parts[:2] for path in tmp_path.rglob("*.nbc")} == {(".cache", "blocksvm")}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_calls_what_there_is_and_holds_no_secret(name):
    workflow = WORKFLOWS[name]
    assert {"name", True, "permissions", "jobs"} <= set(workflow)  # YAML takes "on" for true
    assert "secrets." not in str(workflow) and "://" not in str(workflow)
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    for step in steps:
        assert re.fullmatch(r"(actions|pypa)/[\w-]+@[\w/]+", step.get("uses", "actions/x@v1"))
        for line in step.get("run", "").splitlines():
            program = shlex.split(line)[0]
            assert os.access(ROOT / program, os.X_OK) if "/" in program else shutil.which(program), line


def test_each_python_that_is_claimed_is_tried_before_an_upload():
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    build = WORKFLOWS["release"]["jobs"]["build"]["steps"]
    assert [step["run"] for step in build if ".ci" in step.get("run", "")] == [f".ci/installed {' '.join(claimed)}"]
    (pythons,) = (step["with"]["python-version"].split() for step in build if "setup-python" in step.get("uses", ""))
    assert sorted(pythons) == claimed and pythons[-1] == claimed[0]
    upload = WORKFLOWS["release"]["jobs"]["upload"]
    assert upload["permissions"] == {"id-token": "write"} and "pypa/gh-action-pypi-publish" in str(upload["steps"][-1])
