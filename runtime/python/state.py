"""The state of a loaded program by name: read and written through the methods that the compiler adds for it.

``etir.compile(program, state_methods=True)`` adds them. Names are those of the user's module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from etir.runtime.errors import E1213, one_frame, usage_failure

NAMES = "__et_state_names"
READ = "__et_read_state"
WRITE = "__et_write_state"


class Methods(Protocol):
    """What this module needs of a program."""

    methods: tuple[str, ...]

    def __getitem__(self, name: str, /) -> Any: ...


class State(Mapping[str, Any]):
    """A program's state as a mapping of names to arrays, which are copies.

    ``state["cache"]`` reads one, :meth:`read` all at once, :meth:`write` changes some. Each is one call of a method, so
    that no run is seen half done.
    """

    @one_frame
    def __init__(self, program: Methods):
        """Raises RuntimeFailure (E1213) when the program was compiled without the methods."""
        if READ not in program.methods:
            raise usage_failure(
                E1213,
                "the program has no methods that read and write its state",
                help="compile it with state_methods=True",
            )
        self._program = program
        self._names: tuple[str, ...] = tuple(program[NAMES]())

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @one_frame
    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return self._program[READ]()[self._names.index(name)]

    @one_frame
    def read(self, *, torch: bool = False) -> dict[str, Any]:
        """All of it, as NumPy arrays or as torch tensors."""
        return dict(zip(self._names, self._program[READ].run((), torch=torch), strict=True))

    @one_frame
    def write(self, values: Mapping[str, Any]) -> None:
        """Change what ``values`` names, by tensors of the same shape and dtype; the rest stays.

        Raises RuntimeFailure: E1213 for a name that there is not, E1208 for a tensor that does not fit.
        """
        for name in values:
            if name not in self._names:
                known = ", ".join(self._names)
                raise usage_failure(E1213, f"the program has no state '{name}'", help=f"it has {known}")
        torch = any(hasattr(value, "numpy") for value in values.values())
        held = self.read(torch=torch) if len(values) < len(self._names) else {}
        self._program[WRITE](*(values.get(name, held.get(name)) for name in self._names))

    def __repr__(self) -> str:
        return f"<etir.runtime.State of {', '.join(self._names)}>"
