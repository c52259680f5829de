"""The declarations that generate.py makes of kernels' rows; that sources use the names that the schemas give."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from etir_testing.runtime.kernels import RUNTIME

sys.path.insert(0, str(RUNTIME / "kernels"))
from generate import functions_of, header_name, headers, load_manifest, table_text

ALL = functions_of(load_manifest())


def row(schema: str, function: str = "f", source: str = "x/f.cc", **more: Any) -> dict[str, Any]:
    return {"schema": schema, "function": function, "source": source, "dtypes": [], "dim_orders": "any", **more}


def declared(*schemas: str, **more: Any) -> str:
    """The declaration of the one function of some rows, without its beginning."""
    rows = {schema.partition("(")[0]: row(schema, **more) for schema in schemas}
    (text,) = headers(rows).values()
    found = re.search(r"static void f\(KernelContext& ctx(?:, )?(.*)\);", text)
    assert found is not None, text
    return found[1]


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (
            "a::f.out(Tensor self, Tensor? bias, Scalar alpha=1, *, Tensor(a!) out) -> Tensor(a!)",
            "const Tensor& self, const Tensor* bias, const Scalar& alpha, Tensor& out",
        ),
        (
            "a::f(int i, SymInt? j, float x, float? y, bool b, bool? c) -> ()",
            "int64_t i, std::optional<int64_t> j, double x, std::optional<double> y, bool b, std::optional<bool> c",
        ),
        (
            "a::f.out(SymInt[2] size, int[]? dims, float[]? scales, bool[3] mask, Tensor(a!)[] out) -> ()",
            "const IntList& size, std::optional<IntList> dims, std::optional<DoubleList> scales, const BoolList& mask, "
            "const TensorList& out",
        ),
        (
            "a::f(str mode, str? side, ScalarType dtype, ScalarType? other, Scalar? p, Tensor?[] items) -> ()",
            "StringView mode, std::optional<StringView> side, ScalarType dtype, std::optional<ScalarType> other, "
            "std::optional<Scalar> p, const TensorList& items",
        ),
        ("a::f_(Tensor(a!) self, Tensor(b!)? running, Generator? generator) -> ()", "Tensor& self, Tensor* running"),
    ],
)
def test_types(schema: str, arguments: str) -> None:
    assert declared(schema) == arguments


def test_primitives_have_their_result_as_the_last_argument() -> None:
    assert declared("p::f(Scalar a, SymInt b) -> bool", kind="prim") == (
        "ScalarArgument a, ScalarArgument b, ScalarResult result"
    )
    (text,) = headers({"p::f": row("p::f(Tensor a, float b) -> bool", kind="prim")}).values()
    assert "{ etir::f(ctx, ctx.tensor(0), ScalarArgument{1}, ScalarResult{2}); }" in text
    assert declared("p::f(Tensor a) -> Tensor", kind="prim") == "const Tensor& a, Tensor& result"
    assert declared("p::f(Tensor a) -> ()", kind="prim") == "const Tensor& a"


def test_rows_that_share_a_function() -> None:
    tensor = "a::f.Tensor(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)"
    number = "a::f.Scalar(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)"
    assert declared(tensor, number) == "const Tensor& self, const TensorOrScalar& other, Tensor& out"
    absent = "a::g(Tensor self, Tensor? other, *, Tensor(a!) out) -> Tensor(a!)"
    assert declared(tensor, absent) == "const Tensor& self, const Tensor* other, Tensor& out"
    assert declared(number, absent) == "const Tensor& self, const TensorOrScalar& other, Tensor& out"


def test_places_that_differ_have_entries_of_their_own() -> None:
    rows = {
        "a::f.out": row("a::f.out(SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)"),
        "a::f.generator_out": row("a::f.generator_out(SymInt[] size, *, Generator? g, Tensor(a!) out) -> Tensor(a!)"),
    }
    (text,) = headers(rows).values()
    assert "void f(KernelContext& ctx) { etir::f(ctx, ctx.int_list(0), ctx.tensor(1)); }" in text
    assert "void f_1(KernelContext& ctx) { etir::f(ctx, ctx.int_list(0), ctx.tensor(2)); }" in text
    assert "enum : int { size = 0 };" in text  # where the result is depends on the entry
    table = table_text({"a::f.generator_out": rows["a::f.generator_out"]}, functions_of(rows))
    assert '{"a::f.generator_out", entry::f_1, "Lg>T"' in table


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((row("a::f(Tensor a) -> ()"), row("a::g(Tensor a, int b) -> ()")), "has other arguments than another row"),
        ((row("a::f(Tensor a) -> ()"), row("a::g(int a) -> ()")), "no C++ argument is both"),
        ((row("a::f(Tensor a) -> ()"), row("a::g(Tensor a) -> ()", source="y/f.cc")), "a function of x/f.cc and of"),
        ((row("a::f(Tensor long) -> ()"),), "no C++ argument can be called 'long'"),
        ((row("a::f(Stream s) -> ()"),), "no kernel can take an argument of type 'Stream'"),
    ],
)
def test_rows_that_do_not_go_together(rows: tuple[dict[str, Any], ...], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        functions_of({f"a::{i}": item for i, item in enumerate(rows)})


def test_headers_of_other_folders(tmp_path: Any) -> None:
    assert header_name("x/f.cc") == "kernels/x/f.gen.h"
    assert header_name(str(tmp_path / "f.cc")) == "f.gen.h"
    rows = {
        "a::f": row("a::f(Tensor a) -> ()", source="/one/k.cc"),
        "a::g": row("a::g(Tensor a) -> ()", function="g", source="/two/k.cc"),
    }
    with pytest.raises(ValueError, match=r"another source has the header k\.gen\.h"):
        headers(rows)


@pytest.mark.parametrize("source", sorted({function.source for function in ALL.values()}))
def test_parameters_have_the_names_of_the_schema(source: str) -> None:
    """C++ compares the types of a declaration and a definition, but not the names: two of one type could be swapped."""
    text = (RUNTIME / "kernels" / source).read_text(encoding="utf-8")
    assert f'#include "{header_name(source)}"' in text
    text = re.sub(r"\\\n", "\n", text)
    for function in ALL.values():
        if function.source != source:
            continue
        found = re.search(rf"^(?:\[\[.*\]\] )?void {function.name}\((.*?)\) {{", text, re.MULTILINE | re.DOTALL)
        if found is None:
            # A macro that defines several: `name##_out`.
            found = re.search(r"void name##_\w+\((.*?)\) {", text, re.DOTALL)
        assert found is not None, function.name
        names = [re.findall(r"\w+", part)[-1] for part in re.split(r",(?![^<]*>)", found[1])]
        assert names == ["ctx", *(argument.name for argument in function.arguments)], function.name
