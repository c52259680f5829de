"""How delegation is written into the text.

* ``{backend.partition = "xnnpack:0"}`` on an operation: it belongs to partition 0 of its block's function, which goes
  to the backend ``xnnpack``. Numbers count over the whole function, whatever the backend.
* ``backend.delegates = ["xnnpack{fp16=true}"]`` on the module: the options of the backends that partitions name; one
  that is not there has its default options.
* ``backend.options = {"xnnpack:1" = "xnnpack{fp16=false}"}`` on a method: the options of its partitions that are
  lowered under others than the module names.
* ``backend.delegate = "xnnpack{fp16=true}"`` on a private function: it was outlined for that backend.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from etir.backends.api.registry import Delegate, parse_delegate
from etir.backends.errors import E1109
from etir.dialects.text import source_location

PARTITION = "backend.partition"
DELEGATES = "backend.delegates"
OPTIONS = "backend.options"
DELEGATE = "backend.delegate"
LEGAL = "backend.legal"
"""On an outlined function: it is in its backend's own dialect."""
INLINE = "backend.inline"
"""On an outlined function: its blob stays in the program's FlatBuffer."""


def partition_of(op: Operation) -> tuple[str, int] | None:
    """Backend and number of the partition that an operation belongs to. Raises E1109 for a malformed attribute."""
    attribute = op.attributes.get(PARTITION)
    if attribute is None:
        return None
    text = attribute.data if isinstance(attribute, StringAttr) else str(attribute)
    name, colon, number = text.rpartition(":")
    if not isinstance(attribute, StringAttr) or not colon or not name or not number.isdecimal():
        raise E1109.error(f"'{op.name}' is in partition {text!r}", source_location(op.location))
    return name, int(number)


def function_name(method: str, place: tuple[str, int]) -> str:
    """What the function of a partition is called: ``forward_xnnpack_0``."""
    backend = "".join(c if c.isalnum() else "_" for c in place[0])
    return f"{method}_{backend}_{place[1]}"


def set_partition(op: Operation, name: str, number: int) -> None:
    """Put an operation into a partition."""
    op.attributes[PARTITION] = StringAttr(f"{name}:{number}")


def delegates_of(module: ModuleOp) -> dict[str, Delegate]:
    """The backends that the module names, with their options. Raises what :func:`parse_delegate` does."""
    attribute = module.attributes.get(DELEGATES)
    texts = [a.data for a in attribute.data if isinstance(a, StringAttr)] if isinstance(attribute, ArrayAttr) else []
    found = [parse_delegate(text) for text in texts]
    return {delegate.name: delegate for delegate in found}


def delegate_for(func: FuncOp, place: tuple[str, int], named: Mapping[str, Delegate]) -> Delegate:
    """The backend of a partition of ``func`` with its options; ``named`` are those of the module.

    Raises E1109 where the text names another backend, and what :func:`parse_delegate` does.
    """
    name, number = place
    given = func.attributes.get(OPTIONS)
    text = given.data.get(f"{name}:{number}") if isinstance(given, DictionaryAttr) else None
    if not isinstance(text, StringAttr):
        return named.get(name) or parse_delegate(name)
    delegate = parse_delegate(text.data)
    if delegate.name != name:
        raise E1109.error(f"partition '{name}:{number}' has the options of another backend, '{text.data}'")
    return delegate


def set_options(func: FuncOp, place: tuple[str, int], delegate: Delegate) -> None:
    """Lower a partition under options of its own."""
    given = func.attributes.get(OPTIONS)
    known = dict(given.data) if isinstance(given, DictionaryAttr) else {}
    func.attributes[OPTIONS] = DictionaryAttr({**known, f"{place[0]}:{place[1]}": StringAttr(delegate.text)})


def set_delegates(module: ModuleOp, delegates: dict[str, Delegate]) -> None:
    """Write the backends that the module's partitions are for."""
    module.attributes[DELEGATES] = ArrayAttr([StringAttr(d.text) for d in delegates.values()])


def is_marked(module: ModuleOp) -> bool:
    """Whether a module has partitions, or functions that were outlined for a backend."""
    return any(PARTITION in op.attributes or DELEGATE in op.attributes for op in module.walk())


def delegate_of(func: FuncOp) -> Delegate | None:
    """The backend that a function was outlined for, or None for a method."""
    attribute = func.attributes.get(DELEGATE)
    return parse_delegate(attribute.data) if isinstance(attribute, StringAttr) else None
