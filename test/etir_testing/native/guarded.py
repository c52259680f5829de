"""Functions of ``tile`` with every block of memory in its own place: under sanitizers, and between guard pages.

:func:`sanitized` compiles the C with AddressSanitizer and UndefinedBehaviorSanitizer; :func:`paged` runs the very image
that a program would have. Both run a function twice, see ``runner.c``. A finding is an :class:`Finding` with what was
said.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp

from etir.backends.native.cc import compiler, shared_object
from etir.backends.native.cpu import cpu
from etir.backends.native.image import flat_image
from etir.backends.native.packing import packed
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.passes.tile_share import share_kernels
from etir.backends.native.print_c import ENTRY, CSource, print_c
from etir.backends.native.sizes import most
from etir.backends.native.tile import BufferOp, extent_of

from etir_testing import ROOT
from etir_testing.native.emulated import CALL
from etir_testing.native.images import numbers_of_call, types_of_call

RUNNER = Path(__file__).parent / "runner.c"
FOLDER = ROOT / "build" / "native-runner"
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
PLAIN = ("-std=gnu11", "-O1", "-g0", "-w", f"-I{CALL.parent}")
PAGE = 4096


class Finding(AssertionError):
    """A sanitizer, or the processor, says that something is wrong."""


def set_apart(func: FuncOp) -> tuple[int, list[tuple[int, int]]]:
    """Give every buffer a place that it shares with none, whose end is that of a page, with a page at least between
    them that nothing may touch: the bytes of the arena, and what is between.
    """
    at = 0
    gaps: list[tuple[int, int]] = []
    for op in func.body.block.ops:
        if isinstance(op, BufferOp):
            size = 4 * most(extent_of(op.result.type))
            end = -(-(at + PAGE + size) // PAGE) * PAGE
            op.properties["at"] = IntegerAttr(end - size, i64)
            gaps.append((at, end - size - at))
            at = end
    gaps.append((at, PAGE))
    return at + PAGE, gaps


@cache
def _command() -> str:
    """The compiler of the sanitized code: the machine's, which has their libraries."""
    found = os.environ.get("ETIR_SANITIZER_CC") or shutil.which("gcc") or shutil.which("clang")
    assert found is not None, "gcc or clang"
    return found


def _compiled(texts: Sequence[str | Path], out: str | Path, flags: Sequence[str], folder: Path | None = None) -> None:
    command = [_command(), *flags, *map(str, texts), "-o", str(out)]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[:4000]


def _kept(name: str, flags: Sequence[str]) -> Path:
    """What is made of the runner with these flags, once for each text of it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    texts = [source.read_text(encoding="utf-8") for source in (RUNNER, CALL)]
    key = hashlib.sha256("\0".join([_command(), *flags, *texts]).encode()).hexdigest()[:24]
    out = FOLDER / f"{name}-{key}"
    if not out.exists():
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            made = Path(folder) / "made"
            _compiled([RUNNER], made, flags)
            made.replace(out)
    return out


def _linked_runner() -> Path:
    return _kept("linked.o", (*PLAIN, *SANITIZE, "-DETIR_LINKED", "-c"))


def _image_runner() -> Path:
    return _kept("runner", PLAIN)


def _source(func: FuncOp, name: str, arena_bytes: int | None) -> tuple[CSource, int, list[tuple[int, int]]]:
    """The C of ``func``, the bytes of its arena, and what of it nothing may touch."""
    gaps: list[tuple[int, int]] = []
    if arena_bytes is None:
        arena_bytes, gaps = set_apart(func)
    choose_schedules(func, cpu(name))
    share_kernels(func, cpu(name))
    return print_c(func, cpu(name)), arena_bytes, gaps


def sanitized(
    func: FuncOp,
    name: str,
    inputs: Sequence[np.ndarray],
    weights: Mapping[str, np.ndarray],
    arena_bytes: int | None = None,
    flags: Sequence[str] = ("-O1",),
) -> list[np.ndarray]:
    """What the C of ``func`` for processor ``name`` writes under sanitizers. ``arena_bytes`` None sets buffers apart.

    Changes places and schedules of ``func``. Raises :class:`Finding`.
    """
    source, arena_bytes, gaps = _source(func, name, arena_bytes)
    runner = _linked_runner()
    # Beside the sources, by a name without its folder, and linked by itself: compiler caches know the same text again.
    with tempfile.TemporaryDirectory(dir=FOLDER) as name_of_folder:
        folder = Path(name_of_folder)
        (folder / "native.c").write_text(source.text, encoding="utf-8")
        made = (*PLAIN, *flags, *SANITIZE, "-ffp-contract=fast", *cpu(name).flags, "-c")
        _compiled(["native.c"], "native.o", made, folder)
        _compiled(["native.o", runner], "program", SANITIZE, folder)
        return _run(folder, folder / "program", func, source, inputs, weights, arena_bytes, gaps)


def paged(
    func: FuncOp,
    name: str,
    inputs: Sequence[np.ndarray],
    weights: Mapping[str, np.ndarray],
    arena_bytes: int | None = None,
) -> list[np.ndarray]:
    """What the image of ``func`` for processor ``name`` writes between guard pages; the same arguments."""
    source, arena_bytes, gaps = _source(func, name, arena_bytes)
    image = flat_image(shared_object(source.text, cpu(name), compiler()), ENTRY)
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder) / "image"
        code.write_bytes(image.code)
        line = f"image {code} {len(image.code)} {image.entry}"
        return _run(Path(folder), _image_runner(), func, source, inputs, weights, arena_bytes, gaps, line)


def _run(
    folder: Path,
    program: Path,
    func: FuncOp,
    source: CSource,
    inputs: Sequence[np.ndarray],
    weights: Mapping[str, np.ndarray],
    arena_bytes: int,
    gaps: Sequence[tuple[int, int]],
    first: str = "",
) -> list[np.ndarray]:
    lines = [first] if first else []
    given = [("input", np.ascontiguousarray(x, np.bool_ if x.dtype == np.bool_ else np.float32)) for x in inputs]
    given += [("weight", packed(op, weights[op.symbol.data])) for op in source.weights]
    for number, (kind, array) in enumerate(given):
        path = folder / str(number)
        path.write_bytes(array.tobytes())
        lines.append(f"{kind} {path} {array.nbytes}")
    shapes = [tuple(type.get_shape()) for type in types_of_call(func, inputs)[len(inputs) :]]
    lines += [f"output {4 * int(np.prod(shape))}" for shape in shapes]
    lines += [f"arena {arena_bytes}", *(f"poison {at} {size}" for at, size in gaps)]
    lines += [f"size {n}" for n in numbers_of_call(func, inputs)[0]]
    (folder / "description").write_text("\n".join(lines) + "\n")
    environment = {"PATH": os.environ["PATH"], "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1"}
    command = [str(program), str(folder / "description"), str(folder / "out")]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    if run.returncode != 0:
        raise Finding(f"ended with {run.returncode}: {run.stderr[:6000]}")
    whole = np.frombuffer((folder / "out").read_bytes(), np.float32)
    results: list[np.ndarray] = []
    at = 0
    for shape in shapes:
        size = int(np.prod(shape))
        results.append(whole[at : at + size].reshape(shape))
        at += size
    assert at == whole.size
    return results
