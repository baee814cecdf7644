"""Builds the package: as setuptools does, but for wheels, which also hold the machine code of what a first use runs.

A build backend (PEP 517) that pyproject.toml names.  ``pip wheel . --config-settings kernels=none`` leaves the machine
code out: such a wheel is for every machine.  Code of other releases of numba and numpy, or of another processor, is not
found by whoever installs the wheel (blocksvm/kernels/disk.py), and compiled on first use.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from importlib.metadata import distributions
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401  what a build frontend looks for
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

ROOT = Path(__file__).resolve().parents[1]
DECIDING = ("numba", "llvmlite", "numpy")  # releases that decide about machine code


def with_kernels(config_settings: dict | None) -> bool:
    """Whether a wheel is to have machine code.  Raises ValueError where ``kernels`` says neither yes nor no."""
    asked = (config_settings or {}).get("kernels", "compiled")
    if asked not in ("compiled", "none"):
        raise ValueError(f"--config-settings kernels={asked}: must be 'compiled' (the default) or 'none'")
    return asked == "compiled"


def get_requires_for_build_wheel(config_settings: dict | None = None) -> list[str]:
    """To compile the package, it must run; with the releases that the code is for, where they are installed already."""
    required = build_meta.get_requires_for_build_wheel(config_settings)
    if with_kernels(config_settings):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        installed = {one.name: one.version for one in distributions(path=[sysconfig.get_path("purelib")])}
        required += ["wheel", *project["dependencies"]]
        required += [f"{name}=={installed[name]}" for name in DECIDING if name in installed]
    return required


def build_wheel(
    wheel_directory: str, config_settings: dict | None = None, metadata_directory: str | None = None
) -> str:
    """The name of the wheel; without machine code, and saying so, where none can be made."""
    wanted = with_kernels(config_settings)
    wheel = Path(wheel_directory, build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))
    if not wanted:
        return wheel.name
    try:
        return compiled(wheel)
    except Exception as error:  # whatever it is, the package works without
        print(f"the wheel is without kernels, which are compiled on first use: {error}", file=sys.stderr)
        return wheel.name


def compiled(wheel: Path) -> str:
    """Put into a wheel the kernels of its package and the tags of this platform and Python: the new wheel's name."""
    with tempfile.TemporaryDirectory(prefix="blocksvm-wheel-") as temporary:
        folder = Path(temporary)
        run("wheel", "unpack", wheel, "--dest", folder / "wheel")
        (content,) = (folder / "wheel").iterdir()
        # as a plain run finds it: numba's switches decide about the code
        plain = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
        processes = "2" if len(os.sched_getaffinity(0)) > 1 else "1"
        run("blocksvm.cli.warmup", "", "", processes, cwd=content, env=plain | {"XDG_CACHE_HOME": temporary})
        (folder / "blocksvm").rename(content / "blocksvm" / "compiled")
        for path in (content / "blocksvm" / "compiled").glob("*/*"):
            path.chmod(0o644)
        (about,) = content.glob("*.dist-info/WHEEL")
        platform = re.sub("[-.]", "_", sysconfig.get_platform())
        tag = f"cp{sys.version_info.major}{sys.version_info.minor}-none-{platform}"
        text = re.sub("(?m)^Tag: .*$", f"Tag: {tag}", about.read_text())
        about.write_text(text.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false"))
        run("wheel", "pack", content, "--dest-dir", folder)
        (packed,) = folder.glob("*.whl")
        wheel.with_name(packed.name).write_bytes(packed.read_bytes())
    wheel.unlink()
    return packed.name


def run(module: str, *arguments, **options) -> None:
    """A module's main program, without leaving bytecode behind; CalledProcessError where it fails."""
    subprocess.run([sys.executable, "-B", "-m", module, *map(str, arguments)], check=True, **options)
