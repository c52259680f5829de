"""A program of a plan as an artefact: what its factory gives, exported, with the calls that it is compared by.

The artefact has the bytes of the ``.pt2`` file, the flat inputs of each call, the outputs of eager torch for them, and
the data for calibration. Everything that follows reads these, so that a factory runs once, in one process.

Inputs are in memory as those that the program was exported on: a program of channels-last inputs reads its bytes as
channels last, and a runtime is given bytes.
"""

from __future__ import annotations

import copy
import io
import logging
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, cast

from etir.diagnostics import EtirError
from etir.lowering.functionalize.strides import dim_order
from etir.lowering.import_fx import require_torch
from etir.quantization.samples import samples_of
from etir.sweeps.calls import imported
from etir.sweeps.errors import E1904
from etir.sweeps.model import Model
from etir.sweeps.plan import ProgramEntry


def export_program(program: ProgramEntry) -> bytes:
    """The artefact. Raises error E1904 for what is no program, E1912 for functions that fail, and what torch does."""
    torch = require_torch()
    tree = torch.utils._pytree
    model = _model(program)
    with torch.no_grad():
        if isinstance(model.module, torch.export.ExportedProgram):
            exported, module = model.module, model.module.module()
            calls = [model.inputs, *model.more] if model.inputs or model.more else [_example(exported)]
        elif isinstance(model.module, torch.nn.Module):
            module, calls = copy.deepcopy(model.module), [model.inputs, *model.more]
            try:
                exported = torch.export.export(
                    model.module, copy.deepcopy(model.inputs), dynamic_shapes=model.dynamic_shapes
                )
            except Exception as error:  # torch.export raises whatever it meets in the user's code
                message = (str(error).splitlines() or [""])[0]
                raise E1904.error(f"torch.export of '{program.name}': {type(error).__name__}: {message}") from error
        else:
            raise E1904.error(f"'{program.name}': a {type(model.module).__name__} is neither a module nor a program")
        if program.samples is not None:
            calls = [tuple(_tensor(v) for v in call) for call in _calls(program.samples)]
        expected = [_eager(program.name, number, module, call) for number, call in enumerate(copy.deepcopy(calls))]
    example = tree.tree_leaves(exported.example_inputs or ())
    flat = [_laid_out(tree.tree_leaves(call), example) for call in calls]
    if program.calibration is not None:
        calibration: Sequence[Sequence[Any]] = [list(call) for call in _calls(program.calibration)]
    else:
        calibration = [tree.tree_leaves(call) for call in model.calibration] or flat
    buffer = io.BytesIO()
    torch.export.save(exported, buffer)
    what = {
        "program": buffer.getvalue(),
        "calls": flat,
        "expected": expected,
        "calibration": [[_detached(v) for v in call] for call in calibration],
        "metric": model.metric,
        "tolerance": model.tolerance,
    }
    found = io.BytesIO()
    try:
        torch.save(what, found)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        message = f"'{program.name}': its metric cannot go to another process: {error}"
        raise E1904.error(
            message, help="put the function at the top of a module; functools.partial binds data"
        ) from None
    return found.getvalue()


def _eager(name: str, number: int, module: Any, call: Sequence[Any]) -> list[Any]:
    """The flat outputs of eager torch for a call. Raises error E1904 for inputs that it does not take."""
    torch = require_torch()
    try:
        outputs = module(*call)
    except Exception as error:  # The user's code, on the user's inputs.
        message = (str(error).splitlines() or [""])[0]
        raise E1904.error(
            f"'{name}' in eager torch, call {number}: {type(error).__name__}: {message}",
            help="calls (`samples`, `more`) have the inputs that the program takes; arrays of an .npz file have the "
            "calls as their first dim",
        ) from error
    return [_detached(leaf) for leaf in torch.utils._pytree.tree_leaves(outputs)]


def read_export(data: bytes) -> dict[str, Any]:
    """What :func:`export_program` wrote; ``program`` is still the bytes of a ``.pt2`` file."""
    torch = require_torch()
    return torch.load(io.BytesIO(data), weights_only=False)


def _model(program: ProgramEntry) -> Model:
    if program.factory is None:
        assert program.file is not None
        return Model(_loaded(program.file))
    function = imported(program.factory)
    try:
        given = function(**program.arguments)
    except EtirError:
        raise
    except Exception as error:  # The user's code.
        raise E1904.error(f"{program.factory}: {type(error).__name__}: {error}") from error
    if isinstance(given, Model):
        return given
    if isinstance(given, tuple) and len(cast("tuple[Any, ...]", given)) == 2:
        module, inputs = cast("tuple[Any, Any]", given)
        return Model(module, tuple(inputs))
    return Model(given)


def _loaded(path: str) -> Any:
    """The program of a ``.pt2`` file. Raises error E1904 for one that torch cannot load."""
    torch = require_torch()
    logging.disable(logging.WARNING)  # torch logs the traceback of what it then raises
    try:
        return torch.export.load(path)
    except Exception as error:  # torch raises whatever its unpickler and its zip reader meet
        message = (str(error).splitlines() or [""])[0]
        raise E1904.error(f"torch cannot load '{path}': {type(error).__name__}: {message}") from error
    finally:
        logging.disable(logging.NOTSET)


def _example(program: Any) -> tuple[Any, ...]:
    """The inputs that a program was exported on. Raises error E1904 for a file without them."""
    given = program.example_inputs
    if given is None:
        raise E1904.error(
            "the file has no example inputs",
            help="name inputs of your own: samples = 'inputs.npz' or 'module:function'",
        )
    arguments, keywords = given
    if keywords:
        raise E1904.error("the program takes keyword arguments; export it on positional ones, or write a factory")
    return tuple(arguments)


def _calls(source: str) -> list[tuple[Any, ...]]:
    """The inputs of some calls: of an ``.npz`` file, or what a function gives. Raises what ``samples_of`` does."""
    given: Any = source if source.endswith(".npz") else imported(source)()
    found = samples_of(given, None)
    if not found or isinstance(given, Mapping):
        raise E1904.error(f"'{source}' gives no calls")
    return found


def _tensor(value: Any) -> Any:
    import numpy as np

    torch = require_torch()
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _detached(value: Any) -> Any:
    torch = require_torch()
    return value.detach().clone().contiguous() if isinstance(value, torch.Tensor) else value


def _laid_out(values: Sequence[Any], example: Sequence[Any]) -> list[Any]:
    """Copies of a call's inputs, the elements of each in memory in the order of those of the example's."""
    like = [*example, *[None] * len(values)]
    return [_like(value, other) for value, other in zip(values, like, strict=False)]


def _like(value: Any, other: Any) -> Any:
    """A copy of an input with the dim order of another one; row-major where that has none, or another rank."""
    torch = require_torch()
    if not isinstance(value, torch.Tensor) or not isinstance(other, torch.Tensor) or value.dim() != other.dim():
        return _detached(value)
    order = dim_order(other.shape, other.stride())
    if order is None:
        return _detached(value)
    back = sorted(range(len(order)), key=order.__getitem__)
    return _detached(value.permute(order)).permute(back)
