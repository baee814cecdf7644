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
from support.paths import ROOT

import blocksvm

RELEASE = ROOT / "tools" / "release"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BACKEND = PYPROJECT["project"], PYPROJECT["build-system"]["requires"]
RECIPE = yaml.safe_load((RELEASE / "recipe.yaml").read_text())
IMAGE = re.findall(r"^([A-Z]+) (.+)$", (RELEASE / "Dockerfile").read_text(), re.MULTILINE)
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").iterdir()}
CONDA = {"xxhash": "python-xxhash"}  # packages that have another name there


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
