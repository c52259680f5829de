"""Programs and methods as Python objects."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeGuard, cast

from etir.diagnostics import Diagnostic, Severity, SourceLocation
from etir.runtime.arguments import Arguments
from etir.runtime.containers import rebuild
from etir.runtime.errors import E1207, E1208, E1213, E1216, RuntimeFailure, one_frame, usage_failure
from etir.runtime.info import (
    MethodMemory,
    Profile,
    Recorded,
    ScalarInfo,
    Signature,
    TensorInfo,
    info_of,
    signature_text,
)
from etir.runtime.library import native as native_library
from etir.runtime.state import State
from etir.runtime.structure import Structure, leaf_names, parse_structure

if TYPE_CHECKING:
    from etir.runtime import _native

Source = str | os.PathLike[str] | bytes | bytearray | memoryview
"""A file, by its path or as bytes. Read-only bytes are used in place and kept alive; others are copied."""

Row = tuple[Any, ...]
"""What the native module says of an input or output."""


class Compiled(Protocol):
    """A program in memory, with its external data: what ``etir.compile`` returns."""

    @property
    def buffer(self) -> bytes: ...

    @property
    def external(self) -> Mapping[str, bytes]: ...


@one_frame
def load(
    program: Source | Compiled,
    data: Source | Sequence[Source] | None = None,
    *,
    isa: str | None = None,
    threads: int = 1,
    mmap: bool = False,
    temp_bytes: int | None = None,
    seed: int = 0,
    native: Literal["refuse", "trusted"] | Sequence[str] | None = None,
) -> Program:
    """Load a ``.pte`` file. All of it is checked now; methods are loaded at their first use.

    Args:
        program: the file's path or its bytes, or what ``etir.compile`` returned.
        data: external weights, ``.ptd`` files; by default those of a compiled program, none otherwise.
        isa: instruction set of the kernels (``"baseline"``, ``"x86-64-v3"``, ``"x86-64-v4"``); by default the best one
            that the processor and the installation have, or what the environment variable ``ETIR_ISA`` says.
        threads: how many threads one run may use.
        mmap: map files into memory instead of reading them. Nothing may change them while the program is in use.
        temp_bytes: the most scratch memory of each method; by default what the machine gives.
        seed: of the random operators.
        native: whether machine code of the file is run: ``"refuse"``, ``"trusted"``, or the SHA-256 digests (as
            hexadecimal text) of the images that may be. By default what ``etir.compile`` returned in this process is
            trusted, and a file is not. What is refused runs on kernels. Where that is by default, the first method in
            the process that has code for its processor gives a :class:`NativeWarning` (E1216).

    Raises RuntimeFailure (ids E12xx).
    """
    trusted, listed = _native_policy(native, _is_compiled(program))
    is_told = native is not None or trusted
    if threads < 1:
        raise usage_failure(E1213, f"threads is {threads}; a run needs at least 1")
    sources: list[Source] = []
    if isinstance(data, str | os.PathLike | bytes | bytearray | memoryview):
        sources.append(cast(Source, data))
    elif data is not None:
        sources += data
    if _is_compiled(program):
        sources = sources if data is not None else list(program.external.values())
        program = program.buffer
    files = [_source(s) for s in sources]
    handle = native_library().Program(
        _source(program), files, isa or "", threads, mmap, temp_bytes or 0, seed, trusted, listed, is_told
    )
    return Program(handle, os.fspath(program) if isinstance(program, str | os.PathLike) else "")


class NativeWarning(UserWarning):
    """A file has machine code for this processor, which is not run since nobody said whether it may (E1216)."""

    def __init__(self, text: str, diagnostic: Diagnostic | None = None):
        """``text`` alone is what other processes make it of that keep only what a warning says (pytest-xdist)."""
        super().__init__(text)
        self.diagnostic = diagnostic


_warned = threading.Event()


def _warn_once(file: str) -> None:
    """Say how code is run, once in a process; ``file`` is empty for bytes."""
    if not _warned.is_set():
        _warned.set()
        message = "the file has machine code for this processor; what it stands for runs on kernels"
        where = SourceLocation(file) if file else None
        diagnostic = E1216.diagnostic(message, where, severity=Severity.WARNING)
        frame, level = sys._getframe(), 1  # pyright: ignore[reportPrivateUsage]
        while frame is not None and os.path.dirname(frame.f_code.co_filename) == os.path.dirname(__file__):
            frame, level = frame.f_back, level + 1
        warnings.warn(NativeWarning(diagnostic.render(), diagnostic), stacklevel=level)


def _native_policy(native: str | Sequence[str] | None, is_compiled: bool) -> tuple[bool, list[bytes]]:
    """Whether all machine code may be run, and the digests of what else may be."""
    if native is None:
        return is_compiled, []
    if isinstance(native, str):
        if native in ("refuse", "trusted"):
            return native == "trusted", []
        raise usage_failure(E1213, f"native is 'refuse', 'trusted' or a list of digests, not '{native}'")
    try:
        digests = [bytes.fromhex(text) for text in native]
        is_list = len(digests) == len(native)
    except (ValueError, TypeError):
        digests, is_list = [], False
    if not is_list or any(len(digest) != 32 for digest in digests):
        raise usage_failure(E1213, "native lists SHA-256 digests: 64 hexadecimal digits each")
    return False, digests


def _is_compiled(program: Source | Compiled) -> TypeGuard[Compiled]:
    return hasattr(type(program), "buffer") and hasattr(type(program), "external")


def _source(source: object) -> str | bytes | bytearray | memoryview:
    if isinstance(source, bytes | bytearray | memoryview):
        return source
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    raise usage_failure(E1213, f"a {type(source).__name__} is neither a path nor bytes nor a compiled program")


class Program:
    """A loaded file. ``program["forward"]`` and ``program.forward`` are its methods.

    Delegates that are equal in several of these methods are initialized once, where their backend lets methods share
    them; such methods wait for each other.
    """

    def __init__(self, handle: _native.Program, file: str = ""):
        self._handle, self._file = handle, file
        self._lock = threading.Lock()
        self._methods: dict[str, Method] = {}
        self._state: State | None = None
        self.methods: tuple[str, ...] = tuple(handle.methods)
        """Names of the methods."""

    @property
    def isa(self) -> str:
        """The instruction set of the kernels in use."""
        return self._handle.isa

    @property
    def threads(self) -> int:
        """Threads that one run may use."""
        return self._handle.threads

    @one_frame
    def __getitem__(self, name: str) -> Method:
        """The method, loaded at the first call. Raises RuntimeFailure (E1207 when there is none of that name)."""
        with self._lock:
            if name not in self._methods:
                self._methods[name] = self._load(name)
            return self._methods[name]

    def __getattr__(self, name: str) -> Method:
        methods = self.__dict__.get("methods", ())
        if name not in methods:
            raise AttributeError(f"the program has no method '{name}'; it has {', '.join(methods)}")
        return self[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.methods]

    def __iter__(self) -> Iterator[str]:
        return iter(self.methods)

    def __contains__(self, name: object) -> bool:
        return name in self.methods

    def __repr__(self) -> str:
        """The program's own methods with what they take, and the names of the others, in few lines."""
        own = [name for name in self.methods if not name.startswith("__et_")]
        lines = [f"<etir.runtime.Program on {self.isa} kernels, {self.threads} thread{'s' * (self.threads > 1)}"]
        for name in own[:3]:
            signature = self.signature(name)
            takes, gives = (signature_text(infos, 6) for infos in (signature.inputs, signature.outputs))
            lines.append(f"  {name}({takes}) -> [{gives}]")
        others = [*own[3:], *(name for name in self.methods if name.startswith("__et_"))]
        if others:
            lines.append(f"  {', '.join(others[:6])}{f', ... {len(others) - 6} more' if len(others) > 6 else ''}")
        return "\n".join(lines) + ">"

    @one_frame
    def signature(self, name: str) -> Signature:
        """What a method takes and gives, without loading it. Raises RuntimeFailure (E1207 for another name)."""
        return _Interface(name, *self._handle.signature(self._index(name))).signature

    @property
    @one_frame
    def state(self) -> State:
        """What methods keep between calls, by name. Raises RuntimeFailure (E1213) without methods for it."""
        if self._state is None:
            self._state = State(self)
        return self._state

    @one_frame
    def load_method(self, name: str) -> Method:
        """A method with memory and delegates of its own, apart from the one of ``program[name]`` but for state that
        methods share. Other threads may run it while they run those.
        """
        return self._load(name, True)

    def _load(self, name: str, *alone: bool) -> Method:
        index = self._index(name)
        method = Method(_Interface(name, *self._handle.signature(index)), self._handle.load_method(index, *alone))
        if self._handle.refused:
            _warn_once(self._file)
        return method

    def _index(self, name: str) -> int:
        if name not in self.methods:
            raise usage_failure(E1207, f"the program has no method '{name}'; it has {', '.join(self.methods)}")
        return self.methods.index(name)


class _Interface:
    """How one method is called and what comes back, from the native module's rows."""

    def __init__(
        self, name: str, inputs: list[tuple[Any, ...]], outputs: list[tuple[Any, ...]], taken: str, given: str
    ):
        self.arguments = Arguments(parse_structure(taken), len(inputs))
        self.results: Structure | None = parse_structure(given)
        names = leaf_names(self.results, len(outputs), "output")
        if self.results is not None and self.results.leaves != len(outputs):
            self.results = None
        infos = map(info_of, inputs, self.arguments.names), map(info_of, outputs, names)
        self.signature = Signature(name, tuple(infos[0]), tuple(infos[1]))


class Method:
    """A loaded method: call it with the program's arguments, get its outputs as a flat list.

    :meth:`structured` returns them in the containers that the program returned them in.
    """

    def __init__(self, interface: _Interface, handle: _native.Method):
        signature = interface.signature
        self._handle = handle
        self._arguments = interface.arguments
        self._results = interface.results
        self.signature = signature
        """Name, inputs and outputs together."""
        self.name = signature.name
        self.inputs: tuple[TensorInfo | ScalarInfo, ...] = signature.inputs
        """What it takes, flat."""
        self.outputs: tuple[TensorInfo | ScalarInfo, ...] = signature.outputs
        """What it gives, flat."""

    def __call__(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Execute.

        Arguments are those of the program that was compiled, by position or by keyword, or its inputs, flat or by the
        names in ``inputs``. Tensors are anything with DLPack or the buffer protocol on the CPU. They are used in place
        unless the program's plan has a place for them, or their elements lie in another order than ``inputs`` says or
        not side by side: then they are copied, and what the program writes into them comes back.

        Returns the outputs in order: torch tensors when any input was one, NumPy arrays otherwise (bfloat16 as
        ``ml_dtypes.bfloat16`` where that package is loaded, else as float32), which own their memory; numbers and
        strings as Python's.

        Raises RuntimeFailure; the method may be called again.
        """
        try:
            flat = self._arguments.flatten(args, kwargs)
            return self._handle.run(flat, _any_torch(flat))
        except RuntimeFailure as error:
            failure = error
        raise self._explained(failure)

    @one_frame
    def structured(self, *args: Any, **kwargs: Any) -> Any:
        """Execute, and pack the outputs as the program does: a dict, a dataclass, a named tuple, a single tensor.

        Classes that this process does not know, because their module has not been imported or, for those that torch was
        told about, torch has not, are stood in for by :class:`~etir.runtime.Record` and by named tuples of the same
        fields.

        Raises RuntimeFailure: as a call does, and E1213 when the file does not say how outputs are packed.
        """
        if self._results is None:
            raise usage_failure(
                E1213,
                f"the file does not say how the outputs of '{self.name}' are packed",
                help="call the method itself, which returns a flat list; files that etir writes say it",
            )
        return rebuild(self._results, iter(self(*args, **kwargs)))

    def run(self, inputs: Sequence[Any], *, torch: bool) -> list[Any]:
        """Execute with flat inputs; the outputs are torch tensors or NumPy arrays as ``torch`` says."""
        try:
            return self._handle.run(inputs, torch)
        except RuntimeFailure as error:
            failure = error
        raise self._explained(failure)

    def profile(self, *args: Any, **kwargs: Any) -> Profile:
        """Execute and record each instruction. ``str()`` of the result is a table by operator.

        Besides the arguments of the program, ``repeat`` says how often to run (default: 1), ``values`` whether to keep
        what each instruction left (default: False), ``records`` and ``value_bytes`` how much to keep at most; what does
        not fit is counted in the result. A program that has arguments of these names is given those.

        Raises RuntimeFailure as a call does, and E1213 for a number of runs or a size that is none.
        """
        own = {name: kwargs.pop(name) for name in _RECORDED if name in kwargs and not self._arguments.takes(name)}
        repeat, values, records, value_bytes = (own.get(name, default) for name, default in _RECORDED.items())
        for name, number in (("repeat", repeat), ("records", records), ("value_bytes", value_bytes)):
            if not isinstance(number, int) or not 1 <= number < 1 << 48:
                raise usage_failure(E1213, f"{name} is {number!r}; it is a number from 1 on")
        try:
            flat = self._arguments.flatten(args, kwargs)
            outputs, recording = self._handle.record(flat, _any_torch(flat), repeat, bool(values), records, value_bytes)
        except RuntimeFailure as error:
            failure = error
        else:
            return Profile(outputs, tuple(recording.times()), repeat, Recorded(recording))
        raise self._explained(failure)

    @property
    def memory(self) -> MethodMemory:
        """The memory it has and, of scratch memory, what its runs have used so far."""
        return MethodMemory(*self._handle.memory)

    def __repr__(self) -> str:
        return f"<etir.runtime.Method {self.signature}>"

    def _explained(self, error: RuntimeFailure) -> RuntimeFailure:
        """The error without the frames below, and with what the method takes when an input is what is wrong."""
        diagnostic = error.diagnostics[0]
        if diagnostic.id == E1208 and error.check != "None":
            help = f"the method takes {signature_text(self.inputs) or 'nothing'}"
            if error.check == "InputValue":
                help += "; for a number that may vary " + _VARYING
            renewed = diagnostic.id.diagnostic(diagnostic.message, help=help, notes=diagnostic.notes)
            return RuntimeFailure(
                renewed, error.check, error.category, error.method, error.instruction, error.operator, error.values
            )
        return error.with_traceback(None)


_VARYING = "export with torch.export.Dim.DYNAMIC in its place in dynamic_shapes, and compile for target 'etir'"
"""The next step for who gives another number than the one that export has written into the program."""

_RECORDED = {"repeat": 1, "values": False, "records": 1 << 24, "value_bytes": 1 << 30}
"""What :meth:`Method.profile` takes besides the program's arguments, with defaults."""


def _any_torch(values: Sequence[Any]) -> bool:
    torch = sys.modules.get("torch")
    if torch is not None:
        for value in values:  # not any(): its generator takes longer than all else here
            if isinstance(value, torch.Tensor):
                return True
    return False
