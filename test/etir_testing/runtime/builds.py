"""Builds of the C++ half by CMake: each configuration once, through the compiler cache where there is one.

A configuration is a preset of ``CMakePresets.json`` and definitions besides; its folder is ``build/PRESET``, with a
digest after the name when there are definitions. Processes take turns in it. The presets of the tests are ``release``
and, with ``ETIR_BUILD_PRESET`` set to ``fuzz`` or ``asan``, the same under the sanitizers.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

from etir_testing import ROOT


class BuildError(RuntimeError):
    """CMake or a compiler failed; the text is the end of what they said."""


def preset_of_tests() -> str:
    """The preset that libraries of the Python tests are built with."""
    return os.environ.get("ETIR_BUILD_PRESET", "release")


def build(preset: str, *targets: str, defines: Mapping[str, object] | None = None, folder: Path | None = None) -> Path:
    """The build folder of a configuration, with ``targets`` up to date (all of them without any).

    ``folder`` is another place than ``build/``, for a configuration that one test alone has. Raises BuildError.
    """
    given = {"Python_EXECUTABLE": sys.executable, **(defines or {})}
    name = preset
    if defines:
        text = json.dumps({key: str(value) for key, value in defines.items()}, sort_keys=True)
        name += "-" + hashlib.sha256(text.encode()).hexdigest()[:12]
    folder = folder or ROOT / "build" / name
    folder.mkdir(parents=True, exist_ok=True)
    configure = ["cmake", "--preset", preset, "-B", str(folder), *(f"-D{key}={value}" for key, value in given.items())]
    stamp = folder / "configured.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != json.dumps(configure):
            _run(configure)
            stamp.write_text(json.dumps(configure))
        jobs = os.environ.get("ETIR_JOBS", "2")
        _run(["cmake", "--build", str(folder), "--parallel", jobs, *(["--target", *targets] if targets else [])])
    return folder


def selection(operators: Iterable[str]) -> Path:
    """The file of a selective build (``ETIR_ONLY_OPS``) of some operators for all element types."""
    return selection_file("".join(f"{name}\n" for name in sorted(operators)))


def selection_file(text: str) -> Path:
    """The file of a selective build with this text: the same file for the same text, so that builds are the same."""
    folder = ROOT / "build" / "selections"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.txt"
    if not path.exists():
        # Another process may write the same; readers see all of it or none.
        scratch = path.with_suffix(f".{os.getpid()}")
        scratch.write_text(text)
        scratch.replace(path)
    return path


def _run(command: list[str]) -> None:
    # The compiler must not run under the sanitizers that the tests may run under.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    # The compiler by the name that `pip install` calls it, which compiler caches tell apart from others.
    compiler = (sysconfig.get_config_var("CXX") or "c++").split()[0]
    environment.setdefault("CXX", compiler if shutil.which(compiler) else "c++")
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise BuildError((done.stdout + done.stderr)[-8000:])
