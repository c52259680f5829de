"""Programs and methods as Python objects."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from etir.runtime.errors import E1207, E1208, E1213, RuntimeFailure, usage_failure
from etir.runtime.info import MethodMemory, Profile, ScalarInfo, TensorInfo, info_of
from etir.runtime.library import native
from etir.runtime.state import State
from etir.runtime.structure import flatten, input_names, parse_structure

if TYPE_CHECKING:
    from etir.runtime import _native

Source = str | os.PathLike[str] | bytes | bytearray | memoryview
"""A file, by its path or as bytes. Read-only bytes are used in place and kept alive; others are copied."""


def load(
    program: Source,
    data: Source | Sequence[Source] | None = None,
    *,
    isa: str | None = None,
    threads: int = 1,
    mmap: bool = False,
    temp_bytes: int | None = None,
    seed: int = 0,
) -> Program:
    """Load a ``.pte`` file. All of it is checked now; methods are loaded at their first use.

    Args:
        program: the file's path or its bytes.
        data: external weights, ``.ptd`` files.
        isa: instruction set of the kernels (``"baseline"``, ``"x86-64-v3"``, ``"x86-64-v4"``); by default the best one
            that the processor and the installation have, or what the environment variable ``ETIR_ISA`` says.
        threads: how many threads one run may use.
        mmap: map files into memory instead of reading them. Nothing may change them while the program is in use.
        temp_bytes: the most scratch memory of each method; by default what the machine gives.
        seed: of the random operators.

    Raises RuntimeFailure (ids E12xx).
    """
    if threads < 1:
        raise usage_failure(E1213, f"threads is {threads}; a run needs at least 1")
    sources: list[Source] = []
    if isinstance(data, str | os.PathLike | bytes | bytearray | memoryview):
        sources.append(cast(Source, data))
    elif data is not None:
        sources += data
    handle = native().Program(
        _source(program), [_source(s) for s in sources], isa or "", threads, mmap, temp_bytes or 0, seed
    )
    return Program(handle)


def _source(source: Source) -> str | bytes | bytearray | memoryview:
    if isinstance(source, bytes | bytearray | memoryview):
        return source
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    raise usage_failure(E1213, f"a {type(source).__name__} is neither a path nor bytes")


class Program:
    """A loaded file. ``program["forward"]`` and ``program.forward`` are its methods.

    Delegates that are equal in several of these methods are initialised once, where their backend lets methods share
    them; such methods wait for each other.
    """

    def __init__(self, handle: _native.Program):
        self._handle = handle
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
        return f"<etir.runtime.Program with {', '.join(self.methods)}>"

    @property
    def state(self) -> State:
        """What methods keep between calls, by name. Raises RuntimeFailure (E1213) without methods for it."""
        if self._state is None:
            self._state = State(self)
        return self._state

    def load_method(self, name: str) -> Method:
        """A method with memory and delegates of its own, apart from the one of ``program[name]`` but for state that
        methods share. Other threads may run it while they run those.
        """
        return self._load(name, True)

    def _load(self, name: str, *alone: bool) -> Method:
        if name not in self.methods:
            raise usage_failure(E1207, f"the program has no method '{name}'; it has {', '.join(self.methods)}")
        index = self.methods.index(name)
        return Method(name, self._handle.signature(index), self._handle.load_method(index, *alone))


class Method:
    """A loaded method: call it with the program's arguments, get its outputs as a flat list."""

    def __init__(
        self,
        name: str,
        signature: tuple[list[tuple[Any, ...]], list[tuple[Any, ...]], bytes],
        handle: _native.Method,
    ):
        inputs, outputs, encoding = signature
        self.name = name
        self._handle = handle
        self._structure = parse_structure(encoding.decode("utf-8", "replace"))
        names = input_names(self._structure, len(inputs))
        self.inputs: tuple[TensorInfo | ScalarInfo, ...] = tuple(map(info_of, inputs, names))
        """What it takes, flat."""
        self.outputs: tuple[TensorInfo | ScalarInfo, ...] = tuple(info_of(row, None) for row in outputs)
        """What it gives."""

    def __call__(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Execute.

        Arguments are those of the program that was compiled, or its inputs, flat. Tensors are anything with DLPack or
        the buffer protocol on the CPU, dense and in the dim order of ``inputs``; their memory is used in place unless
        the program's plan has a place for them.

        Returns the outputs in order: torch tensors when any input was one, NumPy arrays otherwise (bfloat16 as
        ``ml_dtypes.bfloat16`` where that package is loaded, else as float32), which own their memory; numbers and
        strings as Python's.

        Raises RuntimeFailure; the method may be called again.
        """
        flat = flatten(args, kwargs, self._structure)
        return self.run(flat, torch=_any_torch(flat))

    def run(self, inputs: Sequence[Any], *, torch: bool) -> list[Any]:
        """Execute with flat inputs; the outputs are torch tensors or NumPy arrays as ``torch`` says."""
        try:
            return self._handle.run(inputs, torch)
        except RuntimeFailure as error:
            raise self._with_inputs(error) from None

    def profile(self, *args: Any, **kwargs: Any) -> Profile:
        """Execute and time each instruction. ``str()`` of the result is a table by operator."""
        flat = flatten(args, kwargs, self._structure)
        try:
            outputs, rows = self._handle.profile(flat, _any_torch(flat))
        except RuntimeFailure as error:
            raise self._with_inputs(error) from None
        return Profile(outputs, tuple(rows))

    @property
    def memory(self) -> MethodMemory:
        """The memory it has and, of scratch memory, what its runs have used so far."""
        return MethodMemory(*self._handle.memory)

    def __repr__(self) -> str:
        takes, gives = (", ".join(map(str, infos)) for infos in (self.inputs, self.outputs))
        return f"<etir.runtime.Method {self.name}({takes}) -> [{gives}]>"

    def _with_inputs(self, error: RuntimeFailure) -> RuntimeFailure:
        """The error, with what the method takes as the next step when an input is what is wrong."""
        diagnostic = error.diagnostics[0]
        if diagnostic.id != E1208:
            return error
        takes = ", ".join(map(str, self.inputs)) or "nothing"
        help = f"the method takes {takes}"
        if error.check == "InputDimOrder" or "side by side" in diagnostic.message:
            help += "; x.contiguous() or numpy.ascontiguousarray(x) makes a row-major copy"
        renewed = diagnostic.id.diagnostic(diagnostic.message, help=help, notes=diagnostic.notes)
        return RuntimeFailure(
            renewed, error.check, error.category, error.method, error.instruction, error.operator, error.values
        )


def _any_torch(values: Sequence[Any]) -> bool:
    torch = sys.modules.get("torch")
    if torch is not None:
        for value in values:  # not any(): its generator takes longer than all else here
            if isinstance(value, torch.Tensor):
                return True
    return False
