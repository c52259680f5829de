"""The seeds of the fuzzers: small programs of six kinds. The last four are made when they are needed, so that a new
kernel has a seed at once; the first two are files in ``test/corpus``.

    python test/fuzz_corpus.py

writes the files again, which needs the stock exporter.

* ``stock-*``: what the stock exporter writes (control flow, lists, several outputs, dynamic shapes, state with initial
  data, external data), where it is small;
* ``found-*``: what the fuzzers found once, which no script makes: these files are kept;
* ``hand-*``: loops, jumps, moves, state and shapes that no exporter writes;
* ``xnnpack-*``: delegates with every kind of node and every way to pack constants (``xnnpack_graphs``);
* ``native-*``: delegates with native code under each policy (``etir_testing.native.blobs``);
* ``kernels-*``: every kernel of the manifest, called once with arguments of the right kinds, four methods to a file.

An input is four bytes and a ``.pte``; runtime/executor/program_fuzz.cc says what the four bytes are.
"""

from __future__ import annotations

import sys

from etir_testing import ROOT, TESTS

sys.path.insert(0, str(ROOT / "runtime" / "kernels"))

import torch
from generate import letter, load_manifest, split_arguments

from etir.emit.bundled import write_bundled
from etir.emit.bundled.model import BundledProgram, Case, Suite, Tensor
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte import model
from etir.emit.pte.model import IntList

from etir_testing.runtime.programs import BOUND, Builder
from etir_testing.runtime.xnnpack_graphs import graphs, program

CORPUS = TESTS / "corpus"
MOST_BYTES = 8192
METHODS = 4
_RANK_4 = ("convolution", "spatial")
_INDICES = ("index", "indices", "target", "boundaries", "padding_idx", "pivots")
_BOOLS = ("mask", "condition", "self_mask", "attn_mask")


def _value(b: Builder, code: str, name: str, rank_4: bool) -> int:
    if code.islower():
        return (
            b.none()
            if name in ("weight", "bias", "generator", "dtype", "layout", "device")
            else _value(b, code.upper(), name, rank_4)
        )
    sizes = (1, 2, 3, 4) if rank_4 else (2, 3)
    match code:
        case "T":
            dtype = "LONG" if name in _INDICES else "BOOL" if name in _BOOLS else "FLOAT"
            return b.tensor(*sizes, dtype=dtype, dynamism=BOUND)
        case "I":
            return b.int(1)
        case "D":
            return b.value(model.Double(0.5))
        case "B":
            return b.false()
        case "N":
            return b.int(2)
        case "S":
            return b.value(model.String("mean"))
        case "L":
            return b.value(IntList((b.int(1), b.int(1))))
        case "F":
            return b.value(model.DoubleList((1.0, 1.0)))
        case "O":
            return b.value(model.BoolList((True, True, True)))
        case "V":
            return b.value(model.TensorList((b.tensor(*sizes, dynamism=BOUND), b.tensor(*sizes, dynamism=BOUND))))
        case "W":
            index = b.tensor(2, dtype="LONG", dynamism=BOUND)
            return b.value(model.OptionalTensorList((-1, index)))
        case _:
            raise ValueError(f"no argument of kind {code}")


def call_of(name: str, row: dict[str, object]) -> Builder:
    """A method that calls one kernel; its tensors are inputs where they are arguments, outputs where results."""
    b = Builder(name.replace("::", "_").replace(".", "_"))
    schema = str(row["schema"])
    rank_4 = str(row["source"]).split("/")[0] in _RANK_4
    inputs, results = split_arguments(schema)
    args = [_value(b, letter(text), text.split("=")[0].split()[-1], rank_4) for text in inputs]
    b.inputs = [index for index in args if isinstance(b.values[index], model.Tensor)]
    outs = [_value(b, letter(text), "out", rank_4) for text in results]
    if row.get("kind") == "prim":
        returned = schema[schema.rindex("-> ") + 3 :]
        if returned != "()":
            outs.append(_value(b, letter(f"{returned} result"), "out", rank_4))
        b.call(name, *args, *outs)
    elif len(outs) > 1:
        b.call(name, *args, *outs, b.value(model.TensorList(tuple(outs))))
    else:
        b.call(name, *args, *outs, outs[0] if outs else args[0])
    b.outputs = outs
    return b


def kernel_seeds() -> dict[str, bytes]:
    """Every kernel once, family by family."""
    files: dict[str, bytes] = {}
    groups: dict[str, list[Builder]] = {}
    for name, row in load_manifest().items():
        groups.setdefault(str(row["source"]).split("/")[0], []).append(call_of(name, row))
    for family, builders in groups.items():
        for start in range(0, len(builders), METHODS):
            first, *others = builders[start : start + METHODS]
            files[f"kernels-{family}-{start // METHODS:02}"] = bytes(4) + first.pte(*others, check=False)
    return files


def _without_places(data: bytes) -> bytes:
    """The file with other names of the same length for the folders of this machine, which stack traces have."""
    for folder in (str(ROOT), sys.prefix, sys.base_prefix):
        data = data.replace(folder.encode(), b"/" + b"x" * (len(folder.encode()) - 1))
    return data


def stock_seeds() -> dict[str, bytes]:
    """What the stock exporter writes."""
    from etir_testing.interop.stock_samples import SAMPLES, stock_sample

    files: dict[str, bytes] = {}
    for name in SAMPLES:
        made = stock_sample(name)
        if len(made.pte) > MOST_BYTES - 4 - len(made.ptd or b""):
            continue
        head = bytes(4) if made.ptd is None else b"\1" + len(made.ptd).to_bytes(3, "little") + made.ptd
        files[f"stock-{name}"] = head + _without_places(made.pte)
    return files


def experts() -> bytes:
    """A mixture of experts whose packed weights are valid: the smallest there is."""
    from etir_testing.runtime.executor_programs import floats
    from etir_testing.runtime.moe_weights import pack

    b = Builder()
    x = b.input(b.tensor(3, 16, dynamism=BOUND))
    gate = b.tensor(2, 16, constant=floats(*(i % 5 - 2 for i in range(32))))
    bias = b.tensor(2, constant=floats(0, 1))
    matrices = []
    for rows in (32, 16):
        values = (torch.arange(rows * 16) * 7 % 16 - 8).to(torch.int8).reshape(rows, 16)
        blob = pack(values, torch.full((rows, 1), 0.125), 4).numpy().tobytes()
        matrices.append(b.tensor(2, len(blob), dtype="BYTE", constant=2 * blob))
    numbers = [b.int(n) for n in (1, 2, 16, 16, 16, 4)]
    out = b.tensor(3, 16, dynamism=BOUND)
    b.call(
        "llama::quantized_moe_ffn.out", x, gate, bias, *matrices, *numbers, b.value(model.String("sigmoid")),
        b.value(model.Double(1.0)), out, out,
    )  # fmt: skip
    b.outputs.append(out)
    return b.pte()


def hand_seeds() -> dict[str, bytes]:
    """Control flow, state and shapes, value by value."""
    from etir_testing.runtime.mutated_programs import programs

    return {f"hand-{name}": data for name, data in programs().items()} | {"hand-experts": bytes(4) + experts()}


def delegate_seeds() -> dict[str, bytes]:
    """Delegates that load and run."""
    return {f"xnnpack-{name}": bytes(4) + program(graph) for name, graph in graphs().items()}


def native_seeds() -> dict[str, bytes]:
    """Delegates with native code under each policy, which the first byte says."""
    from etir_testing.native.blobs import programs

    found = programs()
    return {
        f"native-{name}-{policy}": bytes([number << 2, 0, 0, 0]) + data
        for name, data in found.items()
        for number, policy in enumerate(("refuse", "listed", "linked", "verify"))
    }


def made_seeds() -> dict[str, bytes]:
    """The inputs that are no files, by name."""
    return hand_seeds() | delegate_seeds() | native_seeds() | kernel_seeds()


def main() -> int:
    """Write the files."""
    CORPUS.mkdir(exist_ok=True)
    made = stock_seeds()
    for path in CORPUS.iterdir():
        if path.name not in made and not path.name.startswith("found-"):
            path.unlink()
    for name, data in made.items():
        (CORPUS / name).write_bytes(data)
    print(f"{len(made)} seeds, {sum(map(len, made.values()))} bytes")
    return 0


def bundled_seeds() -> dict[str, bytes]:
    """Bundled programs with values of every kind, without cases, and without suites; bytes stand for their program."""
    program = b"\x10\0\0\0ET12" + bytes(56)
    floats = Tensor(ScalarType.FLOAT, (2, 3), (1, 0), bytes(24))
    halves, empty = Tensor(ScalarType.HALF, (4,), (0,), bytes(8)), Tensor(ScalarType.FLOAT, (0, 2), (0, 1), b"")
    number = Tensor(ScalarType.LONG, (), (), bytes(8))
    kinds = Suite("forward", (Case((floats, 1, True, 2.5), (floats, halves)), Case((floats,), ())))
    several = (Suite("a", (Case((empty, number), (number, 1)),)), Suite("b", ()))
    files: dict[str, tuple[Suite, ...]] = {"kinds": (kinds,), "several": several, "none": ()}
    return {name: write_bundled(BundledProgram(program, suites)) for name, suites in files.items()}
