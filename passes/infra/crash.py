"""An exception that a pass should not have raised, as a diagnostic: the pattern, the operation and the author's line.

The innermost frame of such an exception is often inside of a library; the frame that helps is the innermost one of the
package that the pass or the pattern is from. ``--debug`` prints all of them.
"""

from __future__ import annotations

import traceback
from pathlib import Path

from xdsl.passes import ModulePass

from etir.diagnostics import Diagnostic
from etir.dialects.text import source_location
from etir.passes.errors import E0505
from etir.passes.infra.rewriting import PatternError


def unexpected(p: ModulePass, error: Exception) -> Diagnostic:
    """Error E0505 for what ``p`` raised."""
    if not isinstance(error, PatternError) or error.__cause__ is None:
        return E0505.diagnostic(f"pass '{p.name}' failed: {_summary(error)}", notes=_frames(error, [p]))
    cause = error.__cause__
    message = f"pattern '{error.pattern.name}' of pass '{p.name}' failed on '{error.op_name}': {_summary(cause)}"
    return E0505.diagnostic(message, source_location(error.location), notes=_frames(cause, [error.pattern, p]))


def _summary(error: BaseException) -> str:
    """The exception in one line."""
    message = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {message}".rstrip(": ")


def _frames(error: BaseException, owners: list[object]) -> list[str]:
    """A note with the innermost frame of the owners' packages, and what it called where that raised."""
    packages = [type(owner).__module__.partition(".")[0] for owner in owners]
    found = list(traceback.walk_tb(error.__traceback__))
    if not found:
        return []
    own = [pair for pair in found if str(pair[0].f_globals.get("__name__")).partition(".")[0] in packages] or found
    (frame, line), (last, last_line) = own[-1], found[-1]
    note = f"raised in {frame.f_code.co_name}, {frame.f_code.co_filename}:{line}"
    if last is frame:
        return [note]
    return [f"{note}, which called {last.f_code.co_name}, {Path(last.f_code.co_filename).name}:{last_line}"]
