"""Check types with basedpyright: the packages as users import them.

Type checkers do not follow the import hook of an editable install. Editors get a tree of symlinks (``make dev``),
through which a file has two names, its own and ``etir...``; a check then takes one class for two wherever imports form
a cycle. So this check works on a copy under ``build/types``, in which every file has only its real name, and prints the
places of the originals.

    python .ci/check_types.py
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / "build" / "types"


def main() -> int:
    """Copy, check, report; the exit code is the checker's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included: dict[str, str] = project["tool"]["scikit-build"]["wheel"]["force-include"]
    folders = {source: target for source, target in included.items() if (ROOT / source).is_dir()}
    settings = {k: v for k, v in project["tool"]["basedpyright"].items() if k not in ("include", "extraPaths")}
    shutil.rmtree(COPY, ignore_errors=True)
    for source, target in folders.items():
        shutil.copytree(
            ROOT / source, COPY / target, ignore=shutil.ignore_patterns("__pycache__", ".*"), dirs_exist_ok=True
        )
    settings["strict"] = [re.sub(r"^(?!etir/)", "etir/", path) for path in settings.get("strict", [])]
    (COPY / "pyrightconfig.json").write_text(json.dumps({**settings, "include": ["etir"]}), encoding="utf-8")
    command = [
        Path(sys.executable).with_name("basedpyright"),
        "-p",
        COPY,
        "--pythonpath",
        sys.executable,
        "--level",
        "error",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    by_target = {target: source for source, target in folders.items()}

    def original(match: re.Match[str]) -> str:
        path = match[1]
        inside = next((t for t in sorted(by_target, key=len, reverse=True) if path.startswith(f"{t}/")), None)
        return path if inside is None else by_target[inside] + path.removeprefix(inside)

    print(re.sub(rf"{re.escape(str(COPY))}/([\w/.-]+)", original, done.stdout), end="")
    print(done.stderr, end="", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
