"""A checkout is importable as it lies: ``python`` in its root, with nothing of etir installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from etir._checkout import FOLDERS, ROOT


def test_folders_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["scikit-build"]["wheel"]["force-include"]
    expected = {
        target.replace("/", "."): source
        for source, target in included.items()
        if (ROOT / source / "__init__.py").is_file()
    }
    assert expected == {"etir": "etir", **FOLDERS}


def test_import_in_the_root_without_an_installation(tmp_path: Path) -> None:
    # -I and -S: neither the installed package's import hook nor its folder can be what answers; xDSL and NumPy come
    # through the path.
    packages = tmp_path / "packages"
    packages.mkdir()
    for entry in map(Path, sys.path):
        for package in entry.glob("*") if entry.name == "site-packages" else ():
            if "etir" not in package.name and not (packages / package.name).exists():
                os.symlink(package, packages / package.name)
    code = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(packages)!r}]\n"
        "import etir, etir.dialects.context as context, etir.runtime as runtime\n"
        "print(etir.__file__, context.__file__, runtime.__file__)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folders = ("etir/__init__.py", "dialects/context.py", "runtime/python/__init__.py")
    assert done.stdout.split() == [str(ROOT / folder) for folder in folders]
