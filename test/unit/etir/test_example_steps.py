"""Steps of the examples: what libraries print in them goes to a file, which a step that fails names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

NOISE = "os.write(1, b'from C\\n'); os.write(2, b'error from C\\n'); print('from Python'); warnings.warn('old')"


def run(body: str) -> subprocess.CompletedProcess[str]:
    """Run lines of Python that use steps."""
    code = f"import os, sys, warnings; sys.path.insert(0, {str(EXAMPLES)!r})\nfrom support import step\n{body}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_only_what_the_example_says_is_seen() -> None:
    done = run(f"print('before')\nwith step('Work') as say:\n    say('hard'); {NOISE}\nprint('after')")
    assert done.stdout == "before\nafter\n"
    assert re.fullmatch(r"Work \.\.\. \d\.\d s\n", done.stderr)


def test_a_step_that_fails_names_the_file_of_what_was_printed() -> None:
    done = run(f"with step('Work'):\n    {NOISE}\n    raise ValueError('wrong')")
    match = re.match(r"Work \.\.\. failed; what was printed meanwhile is in (.*)\n", done.stderr)
    assert match is not None and "ValueError: wrong" in done.stderr and done.stdout == ""
    log = Path(match[1])
    try:
        text = log.read_text()
    finally:
        log.unlink()
    assert [part for part in ("from C\n", "error from C\n", "from Python\n", "old") if part not in text] == []
