"""Reading and writing ``.pt2`` files: the one place of the tools that needs torch."""

from __future__ import annotations

import io
import logging
from typing import Any

from etir.tools.common import read_head
from etir.tools.errors import E0902
from etir.tools.kinds import refuse_bombs, refuse_others


def load_exported_program(path: str) -> Any:
    """The ``torch.export.ExportedProgram`` of a file.

    Raises error E0902 for a missing file or one of another kind, E0401 without torch, E0406 for a file that torch
    cannot load.
    """
    if path == "-":
        raise E0902.error("a .pt2 file is not read from standard input", help="write it to a file, and pass its path")
    refuse_others(path, read_head(path), "a .pt2 file")
    refuse_bombs(path)
    from etir.lowering.errors import E0406
    from etir.lowering.import_fx import require_torch

    torch = require_torch()
    logging.disable(logging.WARNING)  # torch logs the traceback of what it then raises
    try:
        return torch.export.load(path)
    except Exception as error:  # torch raises whatever its unpickler and its zip reader meet
        message = (str(error).splitlines() or [""])[0]
        if "check the warnings above" in message:  # they are not shown
            message = "it holds no exported program that this version of torch reads"
        raise E0406.error(f"torch cannot load '{path}': {type(error).__name__}: {message}") from error
    finally:
        logging.disable(logging.NOTSET)


def save_exported_program(program: Any) -> bytes:
    """The bytes of a ``.pt2`` file. Raises error E0407 for a program that torch cannot write."""
    from etir.lowering.errors import E0407
    from etir.lowering.import_fx import require_torch

    torch = require_torch()
    buffer = io.BytesIO()
    logging.disable(logging.WARNING)
    try:
        torch.export.save(program, buffer)
    except Exception as error:  # torch's serializer raises what it meets: assertions, its own errors, KeyErrors
        message = (str(error).splitlines() or [""])[0]
        raise E0407.error(f"torch cannot write the program: {type(error).__name__}: {message}") from error
    finally:
        logging.disable(logging.NOTSET)
    return buffer.getvalue()
