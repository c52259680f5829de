"""Node metadata as locations: the user's own source line under the module path,
``loc("layer1.0.conv"("model.py":42:0))``.

The innermost frame of a stack trace is usually inside torch; the one that helps is the innermost frame outside it.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    StringAttr,
    UnknownLoc,
)

from etir.diagnostics import is_torch_file

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH_DIRECTORY = str(Path(torch.__file__).parent) + os.sep


@lru_cache(maxsize=65536)
def frame_of(stack_trace: str) -> LocationAttr:
    """The innermost frame outside torch, else the innermost one."""
    frames = [(file, int(line)) for file, line in _FRAME.findall(stack_trace) if not file.startswith("<")]
    if not frames:
        return UnknownLoc()
    own = [f for f in frames if not f[0].startswith(_TORCH_DIRECTORY) and not is_torch_file(f[0])]
    file, line = own[-1] if own else frames[-1]
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(0))


def location_of(meta: dict[str, Any], name: str) -> LocationAttr:
    """The location of a node: module path over source line; the node's name where neither is known."""
    frame = frame_of(meta.get("stack_trace") or "")
    stack = meta.get("nn_module_stack")
    path = ""
    if stack:
        path = str(next(reversed(stack.values()))[0])
        if path.startswith("_empty_nn_module_stack"):
            path = ""
    if isinstance(frame, UnknownLoc):
        return NameLoc(StringAttr(path or name), frame)
    return NameLoc(StringAttr(path), frame) if path else frame
