"""A checkout is importable as it lies: ``python`` in its root, with nothing of etir installed."""

from __future__ import annotations

import os
import re
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


def run_in_the_root(code: str, folder: Path) -> str:
    """What ``python`` prints for ``code`` with the root of the checkout first in its path and no etir installed.

    -I and -S: neither the installed package's import hook nor its folder can be what answers; what etir needs comes
    through the path. The working directory is ``folder``.
    """
    packages = folder / "packages"
    packages.mkdir()
    for entry in map(Path, sys.path):
        for package in entry.glob("*") if entry.name == "site-packages" else ():
            if "etir" not in package.name and not (packages / package.name).exists():
                os.symlink(package, packages / package.name)
    code = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(packages)!r}]\n{code}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_in_the_root_without_an_installation(tmp_path: Path) -> None:
    code = (
        "import etir, etir.dialects.context as context, etir.runtime as runtime\n"
        "print(etir.__file__, context.__file__, runtime.__file__)"
    )
    folders = ("etir/__init__.py", "dialects/context.py", "runtime/python/__init__.py")
    assert run_in_the_root(code, tmp_path).split() == [str(ROOT / folder) for folder in folders]


def test_the_first_snippet_of_the_readme(tmp_path: Path) -> None:
    """Compiles a model in the root of a checkout, and the file is what the README says next: text to et-translate."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    snippet = re.search(r"^```python\n(.*?)^```$", readme, flags=re.DOTALL | re.MULTILINE)
    assert snippet is not None
    program = """
import contextlib
from etir.tools.et_translate import main
with contextlib.suppress(SystemExit):
    main(["--pte-to-mlir", "tiny.pte"])
"""
    text = run_in_the_root(snippet[1] + program, tmp_path)
    assert 'et.call "aten::linear.out"' in text
