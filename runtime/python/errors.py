"""Error ids of the runtime, and the exception that its failures become.

Which id a failed check gets depends on its number's range and on its category, both from ``runtime/core/checks.def``;
the sentence comes from there too, filled in by the native module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from etir.diagnostics import Diagnostic, ErrorId, EtirError, define

E1201 = define(
    "E1201",
    "the native runtime is not installed",
    "install a wheel that was built for this machine, or a C++17 compiler (g++, clang++) and run pip install "
    "--force-reinstall --no-deps etir (pip install -v shows why the build failed); et-run --interpret needs neither",
)
E1202 = define(
    "E1202",
    "the program is damaged or malformed",
    "write the file again; et-translate --pte-to-mlir shows what a file holds",
)
E1203 = define("E1203", "a file cannot be read", "pass the path of a .pte file, or its bytes")
E1204 = define(
    "E1204",
    "an operator has no kernel in this runtime",
    "compile for this runtime's kernels, build it with the operator (ETIR_ONLY_OPS lists what a build has), or load "
    "a library with it (--load-library, etir.runtime.load_library)",
)
E1205 = define("E1205", "there is not enough memory", "give the method the memory that the message asks for")
E1206 = define(
    "E1206",
    "external data are missing or do not fit",
    "pass the .ptd files that were written with the program: load(path, data=[...])",
)
E1207 = define("E1207", "there is no such method", "the methods are those of the program's `methods`")
E1208 = define("E1208", "an input does not fit the method", "the method's `inputs` say what it takes")
E1209 = define(
    "E1209",
    "an operator refused its arguments",
    "compare with the interpreter (et-run --interpret), which names the operation in the program",
)
E1210 = define(
    "E1210",
    "the runtime does not support this",
    "write the program without it, or with a compiler that lowers it",
)
E1211 = define(
    "E1211",
    "a delegate cannot run",
    "compile the program without the delegate, or load a library with its backend (--load-library, "
    "etir.runtime.load_library)",
)
E1212 = define("E1212", "the method is in no state for this", "load the method again")
E1213 = define("E1213", "wrong arguments for the runtime", "see the documentation of etir.runtime.load")
E1214 = define(
    "E1214",
    "a library of kernels or backends cannot be used",
    "build it with etir_add_library() against the etir that loads it: docs/guide/cpp.md",
)
E1215 = define(
    "E1215",
    "the C++ headers and libraries are not installed",
    "install etir as a wheel or with pip install . where there is a C++17 compiler",
)

E1216 = define(
    "E1216",
    "machine code of a file is not run, since nobody said whether it may",
    'native="trusted" of etir.runtime.load and --native of et-run run it, a list of digests runs those images '
    '(et-translate --disassemble prints them), native="refuse" is what happens now, without this warning',
)

_BY_RANGE = {6: E1209, 7: E1206, 8: E1211}
"""Hundreds of a check's number that decide alone."""

_BY_CATEGORY = {
    "InvalidProgram": E1202,
    "AccessFailed": E1203,
    "OperatorMissing": E1204,
    "MemoryAllocationFailed": E1205,
    "OutOfResources": E1205,
    "InvalidExternalData": E1206,
    "NotFound": E1207,
    "InvalidArgument": E1208,
    "InvalidType": E1208,
    "NotSupported": E1210,
    "InvalidState": E1212,
}


def id_of(number: int, check: str, category: str) -> ErrorId:
    """The id of a failed check. Number 0 stands for a failure that is no check of the core's."""
    if check.startswith("Input") and number // 100 != 3:
        return E1208
    return _BY_RANGE.get(number // 100) or _BY_CATEGORY.get(category, E1202)


class RuntimeFailure(EtirError, RuntimeError):
    """The runtime refused a program or failed to execute it.

    Attributes:
        check: name of the failed check in ``runtime/core/checks.def``, ``"None"`` for failures outside of a program.
        category: what kind of failure it is, for instance ``"InvalidProgram"``.
        method: name of the method, where the failure belongs to one, or None.
        instruction: index of the instruction in the method, or None.
        operator: full name of the operator, or None.
        values: the check's two numbers.
    """

    def __init__(
        self,
        diagnostic: Diagnostic,
        check: str = "None",
        category: str = "",
        method: str | None = None,
        instruction: int | None = None,
        operator: str | None = None,
        values: tuple[int, int] = (-1, -1),
    ):
        super().__init__([diagnostic])
        self.check = check
        self.category = category
        self.method = method
        self.instruction = instruction
        self.operator = operator
        self.values = values


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def one_frame(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A public function whose failures have one frame of this package in their traceback, below the user's line.

    Not for calls of methods, where it would cost time; those do it in place.
    """

    @functools.wraps(function)
    def outermost(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except RuntimeFailure as error:
            failure = error.with_traceback(None)
        raise failure

    return outermost


def failure(
    number: int,
    check: str,
    category: str,
    message: str,
    method: str = "",
    instruction: int = -1,
    operator: str = "",
    a: int = -1,
    b: int = -1,
) -> RuntimeFailure:
    """The exception for a failure of the native module, which finds this function by its name."""
    notes: list[str] = []
    if method:
        where = f"in method '{method}'"
        if instruction >= 0:
            where += f", instruction {instruction}"
        if operator and operator not in message:
            where += f", operator {operator}"
        notes.append(where)
    diagnostic = id_of(number, check, category).diagnostic(message, notes=notes)
    return RuntimeFailure(
        diagnostic,
        check,
        category,
        method or None,
        instruction if instruction >= 0 else None,
        operator or None,
        (a, b),
    )


def usage_failure(id: ErrorId, message: str, *, help: str | None = None) -> RuntimeFailure:
    """The exception for something that never reached the native module."""
    return RuntimeFailure(id.diagnostic(message, help=help), category="InvalidArgument")
