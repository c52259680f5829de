"""The manifest of the stock runtime: its entries fit their schemas, and it answers the link check's questions."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from etir.diagnostics import EtirError
from etir.emit.formats.scalar_type import ScalarType as S
from etir.targets import manifest
from etir.targets.manifest import KernelEntry, Manifest, available, load, make_manifest

NHWC = (0, 2, 3, 1)
NCHW = (0, 1, 2, 3)


@pytest.fixture(scope="module")
def stock() -> Manifest:
    return load("executorch")


def test_counts_by_library(stock: Manifest):
    counts = {library: 0 for library in stock.libraries}
    for entry in stock.kernels.values():
        counts[entry.library] += 1
    assert counts == {"portable": 209, "optimized": 3, "prim": 28, "quantized": 19, "custom_ops": 11, "cortex_m": 17}
    assert sum(counts[library] for library, always in stock.libraries.items() if always) == 240
    assert "XnnpackBackend" in stock.backends
    assert (stock.version, stock.schema_version, stock.tensor_alignment, stock.limits["rank"]) == ("1.5.1", 0, 16, 16)


def problems_of(entry: KernelEntry) -> list[str]:
    schema = entry.schema
    own = schema.qualified_name == entry.name.removesuffix(".default")
    problems = [] if own else [f"{entry.name}: schema of {schema.qualified_name}"]
    names = [a.name for a in schema.arguments]
    tensors = [a.name for a in entry.tensor_arguments]
    for row in entry.dtypes.rows:
        mentioned = [*row, *(name for constraint in row.values() for name in constraint.arguments)]
        problems += [f"{entry.name}: no argument '{name}'" for name in mentioned if name not in names]
        problems += [f"{entry.name}: a row lacks '{name}'" for name in tensors if name not in row]
    words = entry.dim_orders.words
    rules = [*entry.ranks, *entry.items, *([] if isinstance(words, str) else words)]
    problems += [f"{entry.name}: no tensor argument '{name}'" for name in rules if name not in tensors]
    problems += [f"{entry.name}: '{n}' is no list" for n in entry.items if not schema.arguments[names.index(n)].is_list]
    return problems


def test_every_rule_is_about_arguments_of_its_schema(stock: Manifest):
    assert [p for entry in stock.kernels.values() for p in problems_of(entry)] == []
    assert {e.kind for e in stock.kernels.values()} == {"kernel", "prim"}
    assert all(len(name) <= stock.limits["operator_name"] for name in stock.kernels)


def test_the_file_is_sorted_by_library_and_name(stock: Manifest):
    libraries = list(stock.libraries)
    keys = [(libraries.index(e.library), e.name) for e in stock.kernels.values()]
    assert keys == sorted(keys)


@pytest.mark.parametrize(
    ("op", "dtypes", "others", "works"),
    [
        ("aten::add.out", [S.FLOAT, S.HALF, S.FLOAT], {"alpha": 1}, True),
        ("aten::add.out", [S.INT, S.HALF, S.HALF], {"alpha": 1}, False),
        ("aten::add.out", [S.INT, S.HALF, S.INT], {"alpha": 1}, False),
        ("aten::add.out", [S.INT, S.INT, S.INT], {"alpha": 2.5}, False),
        ("aten::mm.out", [S.FLOAT, S.FLOAT, S.FLOAT], {}, True),
        ("aten::mm.out", [S.FLOAT, S.HALF, S.FLOAT], {}, False),
        ("aten::where.self_out", [S.BOOL, S.LONG, S.FLOAT, S.FLOAT], {}, True),
        ("aten::where.self_out", [S.INT, S.FLOAT, S.FLOAT, S.FLOAT], {}, False),
        ("aten::linear.out", [S.FLOAT, S.FLOAT, None, S.FLOAT], {}, True),
        ("aten::embedding.out", [S.BFLOAT16, S.INT, S.BFLOAT16], {}, True),
        ("aten::gather.out", [S.FLOAT, S.INT, S.FLOAT], {}, False),
        ("aten::_log_softmax.out", [S.DOUBLE, S.DOUBLE], {}, False),
        ("aten::cat.out", [[S.FLOAT, S.FLOAT], S.FLOAT], {}, True),
        ("aten::cat.out", [[S.FLOAT, S.INT], S.FLOAT], {}, False),
        ("aten::index.Tensor_out", [S.FLOAT, [None, S.LONG], S.FLOAT], {}, True),
        ("aten::mean.out", [S.INT, S.FLOAT], {"dtype": None}, False),
        ("aten::mean.out", [S.INT, S.FLOAT], {"dtype": S.FLOAT}, True),
        ("aten::mean.out", ["Float", 6], {}, True),
    ],
)
def test_dtypes_of_calls(stock: Manifest, op: str, dtypes: list[object], others: dict[str, object], works: bool):
    reason = stock.check_call(op, dtypes, others=others)  # type: ignore[arg-type]
    assert (reason is None) == works, reason
    assert works or str(reason).startswith(("unsupported dtypes: ", "wrong result: "))


def test_dim_orders_ranks_and_items(stock: Manifest):
    two, three = [S.FLOAT] * 2, [S.FLOAT] * 3
    assert stock.check_call("aten::relu.out", two, [NHWC, NHWC]) is None
    assert "dim orders" in str(stock.check_call("aten::mul.out", three, [NHWC, (), NHWC]))
    assert "dim orders" in str(stock.check_call("aten::_softmax.out", two, [NHWC, NHWC]))
    convolution = [S.FLOAT, S.FLOAT, None, S.FLOAT]
    assert stock.check_call("aten::convolution.out", convolution, [NHWC, NCHW, None, NHWC]) is None
    volume = (0, 1, 2, 3, 4)
    for given in ({"dim_orders": [volume, volume, None, volume]}, {"ranks": [5, 5, None, 5]}):
        reason = stock.check_call("aten::convolution.out", convolution, **given)  # type: ignore[arg-type]
        assert reason == "unsupported rank: 'input' has rank 5, must be 3 to 4"
    put = {"self": S.FLOAT, "indices": [S.LONG, S.LONG], "values": S.FLOAT}
    assert "'indices' has 2 tensors" in str(stock.check_call("aten::index_put_", put, others={"accumulate": False}))


def test_channels_last_broadcasting_is_refused(stock: Manifest):
    orders = [NHWC] * 3
    plain = stock.check_call("aten::mul.out", [S.FLOAT] * 3, orders, shapes=[(2, 3, 4, 5)] * 3)
    broadcast = stock.check_call(
        "aten::mul.out", [S.FLOAT] * 3, orders, shapes=[(2, 3, 4, 5), (1, 3, 1, 1), (2, 3, 4, 5)]
    )
    assert plain is None
    assert "broadcast" in str(broadcast)


def test_results_that_a_kernel_does_not_resize(stock: Manifest):
    """Their sizes must be known; None stands for one that is not."""
    dtypes = {"self": S.FLOAT, "out": [S.FLOAT] * 2}
    known, unknown = (
        stock.check_call("aten::unbind_copy.int_out", dtypes, shapes={"self": (n, 2), "out": [(n,)] * 2})
        for n in (3, None)
    )
    assert known is None
    assert unknown == "dynamic result: it does not resize 'out', whose sizes are dynamic"
    assert stock.check_call("aten::relu.out", [S.FLOAT] * 2, shapes=[(None, 2)] * 2) is None


def test_missing_kernels_and_suggestions(stock: Manifest):
    assert stock.lookup("aten::sort.values") is None
    assert "no kernel 'aten::sort.values'" in str(stock.check_call("aten::sort.values", []))
    assert stock.nearest("aten::add.Tensor")[0] in ("aten::add.Scalar_out", "aten::add.out")
    assert "aten::relu.out" in stock.nearest("aten::relu_")
    assert len(stock.nearest("aten::add.Tensor", count=1)) == 1
    assert stock.nearest("mylib::frobnicate.out") == ()


def test_calls_that_do_not_fit_the_schema_are_errors(stock: Manifest):
    for dtypes in ([S.FLOAT], {"self": S.FLOAT, "weight": S.FLOAT}):
        with pytest.raises(EtirError) as error:
            stock.check_call("aten::relu.out", dtypes)  # type: ignore[arg-type]
        assert error.value.ids == ("E0602",)
        assert "self, out" in str(error.value)


def test_unknown_target_lists_the_available_ones():
    with pytest.raises(EtirError) as error:
        load("executorch-2")
    assert error.value.ids == ("E0601",)
    assert all(name in str(error.value) for name in available())


HEAD: dict[str, Any] = {
    **{"name": "t", "version": "1", "schema_version": 0, "tensor_alignment": 16, "limits": {}, "backends": []},
}
ROW: dict[str, Any] = {"schema": "a::b(Tensor x) -> Tensor", "dtypes": [{"x": "any"}], "dim_orders": "any"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("limits"), "lacks the field 'limits'"),
        (lambda d: d["kernels"]["a::b"].pop("schema"), "lacks the field 'schema'"),
        (lambda d: d["kernels"]["a::b"].update(dtypes=[{"x": "RHQ"}]), "'RHQ' is neither a set nor a scalar type"),
        (lambda d: d["kernels"]["a::b"].update(dim_orders="nhwc"), "dim order word 'nhwc'"),
        (
            lambda d: d.update(features=["warp"]),
            "no feature is called 'warp'; there are dynamic_",
        ),
    ],
)
def test_malformed_manifests(change, words: str):  # type: ignore[no-untyped-def]
    data = HEAD | {"libraries": {"core": True}, "kernels": {"a::b": ROW | {"library": "core"}}}
    assert make_manifest(data, "t.json").lookup("a::b") is not None
    change(data)
    with pytest.raises(EtirError) as error:
        make_manifest(data, "t.json")
    assert error.value.ids == ("E0602",)
    assert words in str(error.value)


@pytest.mark.parametrize(("text", "words"), [("{", "t.json is not JSON"), ("[]", "t.json holds no JSON object")])
def test_text_that_is_no_manifest(text: str, words: str, tmp_path: Path):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(EtirError) as error:
        load(str(tmp_path / "t.json"))
    assert error.value.ids == ("E0602",)
    assert words in str(error.value)


@pytest.fixture
def new_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of targets with one in it, ``t``, whose kernels are in files of their own."""
    (tmp_path / "t.json").write_text(json.dumps(HEAD | {"kernels": "kernels"}))
    for library in ("one", "two"):
        (tmp_path / "kernels" / library).mkdir(parents=True)
        (tmp_path / "kernels" / library / "kernels.json").write_text(json.dumps({f"{library}::b": ROW}))
    monkeypatch.setattr(manifest, "FOLDER", tmp_path)
    caches = (available, load, manifest._load_plain)
    for function in caches:
        function.cache_clear()
    yield tmp_path
    for function in caches:
        function.cache_clear()


def test_a_new_target_is_one_file(new_target: Path):
    assert available() == ("t",)
    for name in ("t", str(new_target / "t.json")):
        target = load(name)
        assert {row.name: row.library for row in target.kernels.values()} == {"one::b": "one", "two::b": "two"}
        assert target.libraries == {"one": True, "two": True}


def test_a_kernel_is_written_down_once(new_target: Path):
    (new_target / "kernels" / "two" / "kernels.json").write_text(json.dumps({"one::b": ROW}))
    with pytest.raises(EtirError, match=r"two/kernels\.json: 'one::b' is also in one"):
        load("t")


def test_a_folder_of_kernels_that_is_not_there(new_target: Path):
    (new_target / "t.json").write_text(json.dumps(HEAD | {"kernels": "nowhere"}))
    with pytest.raises(EtirError, match="nowhere") as error:
        load(str(new_target / "t.json"))
    assert error.value.ids == ("E0601",)


def test_loading_needs_no_torch():
    code = "import sys, etir.targets.manifest as m; m.load('executorch'); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
