"""State: parts of a buffer written in place, several methods over one module, initial values, constant methods."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
portable_lib = pytest.importorskip("executorch.extension.pybindings.portable_lib")

from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.diagnostics import EtirError  # noqa: E402
from etir.dialects.et.instructions import CallOp  # noqa: E402
from etir.dialects.et.program import StateOp, WeightOp  # noqa: E402
from etir.dialects.et.values import BufferOp  # noqa: E402
from etir.lowering.import_fx import import_program  # noqa: E402
from etir.passes.analysis.memory_effects import tensor_bytes  # noqa: E402

SHAPE = (2, 8, 3)
CACHE_BYTES = 2 * 8 * 3 * 4


class Cached(nn.Module):
    """A function of a module with a buffer ``cache``, f32[2, 8, 3]."""

    def __init__(self, function: Callable[..., Any], initial: float = 0.0):
        super().__init__()
        self.function = function
        self.register_buffer("cache", torch.full(SHAPE, initial))

    def forward(self, *args: Any) -> Any:
        self.function(self.cache, *args)
        return self.cache.sum(-1)


def item_of(position: Any) -> Any:
    index = position.item()
    torch._check(index >= 0)
    torch._check(index < SHAPE[1])
    return index


def set_dynamic_slice(cache: Any, x: Any, position: Any) -> None:
    start = item_of(position)
    cache[:, start : start + 1] = x


def set_dynamic_row(cache: Any, x: Any, position: Any) -> None:
    cache.select(1, item_of(position)).copy_(x[:, 0])


def set_twice(cache: Any, x: Any, position: Any) -> None:
    cache.index_copy_(1, position, x)
    cache[:, 7:] = 2 * x


def set_slice(cache: Any, x: Any, position: Any) -> None:
    cache[:, 3:4] = x * position


def set_strided(cache: Any, x: Any, position: Any) -> None:
    cache[:, -6::2] = x * position


def set_leading(cache: Any, x: Any, position: Any) -> None:
    cache[1:] = (x * position)[1:].expand(1, 8, 3)


def set_row(cache: Any, x: Any, position: Any) -> None:
    cache[:, -2] = (x * position)[:, 0]


def narrow(cache: Any, x: Any, position: Any) -> None:
    cache.narrow(1, 2, 1).copy_(x * position)


def index_put(cache: Any, x: Any, position: Any) -> None:
    cache[:, position] = x


WRITES = [
    set_dynamic_slice, set_dynamic_row, set_twice, set_slice, set_strided, set_leading, set_row, narrow, index_put
]  # fmt: skip


def calls() -> list[tuple[Any, Any]]:
    torch.manual_seed(0)
    return [(torch.randn(2, 1, 3), torch.tensor([p])) for p in (3, 0, 7, 3)]


def runs(program: etir.Program, target: str, method: str = "forward") -> Callable[..., list[Any]]:
    data = program.buffer
    if target == "etir":
        return etir.runtime.load(data)[method]
    loaded = portable_lib._load_for_executorch_from_buffer(data)
    return lambda *inputs, _data=data: [t.clone() for t in loaded.run_method(method, inputs)]


def bytes_copied(program: etir.Program) -> int:
    """Bytes of whole caches that the instructions write; ``index_put_`` writes the new values alone."""
    total = 0
    for op in program.module.walk():
        if isinstance(op, CallOp) and op.kernel.data != "aten::index_put_":
            for value in op.arguments[-1:]:
                owner = value.owner
                if isinstance(owner, BufferOp) and tensor_bytes(owner.result.type) >= CACHE_BYTES:
                    total += tensor_bytes(owner.result.type)
    return total


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
def test_part_of_a_buffer_is_written_in_place(write: Callable[..., Any]) -> None:
    model = Cached(write, initial=0.5)
    program = torch.export.export(model, calls()[0])
    reference = copy.deepcopy(model)
    expected = [reference(*inputs) for inputs in calls()]
    for target in ("etir", "executorch"):
        compiled = etir.compile(program, target=target)
        assert bytes_copied(compiled) == 0, target
        step = runs(compiled, target)
        for inputs, wanted in zip(calls(), expected, strict=True):
            torch.testing.assert_close(step(*inputs)[0], wanted)


def test_old_contents_that_are_read_later_are_kept() -> None:
    """Where in place is not legal, a copy is made."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.ones(SHAPE))

        def forward(self, x: Any) -> Any:
            old = self.cache.clone()
            self.cache[:, 1:2] = x
            return old * 2 + self.cache

    model = Model()
    x = torch.full((2, 1, 3), 5.0)
    program = torch.export.export(model, (x,))
    for target in ("etir", "executorch"):
        step, reference = runs(etir.compile(program, target=target), target), copy.deepcopy(model)
        for _ in range(2):
            torch.testing.assert_close(step(x)[0], reference(x))


class Decoder(nn.Module):
    """Attention over a cache: prefill takes any number of rows, decode one; both write and read the cache."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.key, self.query = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("keys", torch.zeros(1, 2, 16, 2))

    def forward(self, x: Any, positions: Any) -> Any:
        heads = lambda t: t.view(1, -1, 2, 2).transpose(1, 2)  # noqa: E731
        self.keys.index_copy_(2, positions, heads(self.key(x)))
        mask = torch.arange(16)[None, :] <= positions[:, None]
        query = heads(self.query(x))
        return nn.functional.scaled_dot_product_attention(query, self.keys, self.keys, mask)


def test_prefill_and_decode_share_weights_and_state() -> None:
    """One module, exported twice: the decode step goes on from what prefill left, and can be started over."""
    model = Decoder()
    rows = torch.randn(1, 6, 4)
    example = (rows[:, :3], torch.arange(3))
    count = Dim("count", max=16)
    programs = {
        "prefill": torch.export.export(model, example, dynamic_shapes=({1: count}, {0: count})),
        "decode": torch.export.export(model, (rows[:, :1], torch.arange(1))),
    }
    reference = copy.deepcopy(model)
    parts = [(rows[:, :4], torch.arange(4)), *((rows[:, i : i + 1], torch.tensor([i])) for i in (4, 5))]
    expected = [reference(*part) for part in parts]
    compiled = etir.compile(
        programs,
        target="etir",
        state_methods=True,
        constant_methods={"get_max_seq_len": 16, "settings": {"name": "tiny", "sizes": [2, 2.5], "on": True}},
    )
    kernels = [op.kernel.data for op in compiled.module.walk() if isinstance(op, CallOp)]
    assert kernels.count("aten::index_put_") == 2 and "aten::index_put.out" not in kernels
    loaded = etir.runtime.load(compiled.buffer)
    for _ in range(2):
        got = [loaded["prefill" if i == 0 else "decode"](*part)[0] for i, part in enumerate(parts)]
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a, b)
        torch.testing.assert_close(torch.from_numpy(loaded.state["keys"]), reference.keys)
        loaded.state.write({"keys": torch.zeros(1, 2, 16, 2)})
    assert loaded["get_max_seq_len"]() == [16]
    assert loaded["settings"]() == ["tiny", 2, 2.5, True]
    names = [op.sym_name.data for op in compiled.module.body.block.ops if isinstance(op, (WeightOp, StateOp))]
    for name in ("key.weight", "key.bias", "query.weight", "query.bias", "keys"):
        assert sum(n == name or n.startswith(f"{name}_") for n in names) == 1, "once for both methods"
    for_stock = etir.compile(programs, target="executorch", constant_methods={"get_max_seq_len": 16})
    stock = portable_lib._load_for_executorch_from_buffer(for_stock.buffer)
    torch.testing.assert_close(stock.run_method("prefill", parts[0])[0], expected[0])
    assert stock.run_method("get_max_seq_len", ()) == [16]


def test_constant_methods() -> None:
    model = Cached(set_row)
    program = torch.export.export(model, calls()[0])
    values = {"ids": torch.tensor([3, 4]), "kind": torch.float16, "nothing": None, "words": ("a", ["b"])}
    compiled = etir.compile(program, constant_methods=values)
    stock = portable_lib._load_for_executorch_from_buffer(compiled.buffer)
    loaded = etir.runtime.load(compiled.buffer)
    for run in (lambda name: stock.run_method(name, ()), lambda name: loaded[name]()):
        assert [int(v) for v in run("ids")[0]] == [3, 4]
        assert run("kind") == [5] and run("words") == ["a", "b"]
    assert loaded["nothing"]() == [None]
    for wrong, id in (({"forward": 1}, "E0402"), ({"big": 2**63}, "E0403"), ({"thing": object()}, "E0403")):
        with pytest.raises(EtirError) as error:
            import_program(program, constant_methods=wrong)
        assert error.value.ids == (id,)


def test_tensors_that_are_no_buffers_keep_their_changes() -> None:
    """What eager keeps between calls: parameters changed without gradients, attributes, tensors of other objects."""

    class Memory:
        def __init__(self) -> None:
            self.held = torch.zeros(3)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))
            self.plain = torch.zeros(3)
            self.memory = Memory()

        def forward(self, x: Any) -> Any:
            fresh = torch.tensor([1.0, 2.0, 3.0])
            fresh.mul_(2)
            with torch.no_grad():
                self.scale.mul_(2)
            self.plain.add_(x)
            self.memory.held.sub_(x)
            return self.scale + self.plain + fresh, self.memory.held * 1

    x = torch.tensor([1.0, -1.0, 0.5])
    for strict in (True, False):
        program = torch.export.export(Model(), (x,), strict=strict)
        steps = [runs(etir.compile(program, target=target), target) for target in ("etir", "executorch")]
        reference = program.module()  # shares the tensors of the program, and changes them
        expected = [[t.detach().clone() for t in reference(x)] for _ in range(3)]
        for step in steps:
            for wanted in expected:
                torch.testing.assert_close([t.clone() for t in step(x)], wanted)


@pytest.mark.parametrize(
    "views",
    [
        lambda x, cache: torch.broadcast_tensors(x, cache)[1],
        lambda x, cache: torch.meshgrid(x[0, 0], cache[1, :, 0], indexing="ij")[1][0],
        lambda x, cache: torch.atleast_3d(x, cache)[1],
        lambda x, cache: cache.split(3, 1)[1],
        lambda x, cache: torch.nn.functional.dropout(cache.unbind(1)[2], training=False),
    ],
    ids=["broadcast_tensors", "meshgrid", "atleast_3d", "split", "unbind"],
)
@pytest.mark.parametrize("target", ["etir", "executorch"])
def test_state_that_changes_through_one_view_of_several(views: Callable[..., Any], target: str) -> None:
    """Each result of an operator on lists is a view of its own operand, which the program has to keep."""

    class Viewed(Cached):
        def forward(self, x: Any) -> Any:
            views(x, self.cache).add_(1)
            return self.cache.clone()

    x = torch.ones(SHAPE)
    model = Viewed(lambda cache: cache, 0.5)
    run = runs(etir.compile(torch.export.export(model, (x,)), target=target), target)
    model = copy.deepcopy(model)
    for _ in range(3):
        (got,) = run(x)
        assert torch.equal(torch.as_tensor(got), model(x))
