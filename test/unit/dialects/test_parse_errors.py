"""What the parser's errors say: what was found, and what was probably meant."""

from __future__ import annotations

import pytest

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module

_TWO = "(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"


def _message(text: str) -> str:
    with pytest.raises(EtirError) as caught:
        parse_module(text, EtContext(), name="m.mlir")
    (diagnostic,) = caught.value.diagnostics
    return f"{diagnostic.location}: {diagnostic.id}: {diagnostic.message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('%0 = "" () : () -> ()', "1:6: E0102: the name of an operation is empty"),
        ('""() : () -> ()', "1:1: E0102: the name of an operation is empty"),
        ("%0 = : i32", "1:6: E0101: operation name expected, found ':'"),
        ("func.func @f() { 5 }", "1:18: E0101: unexpected '5' in block definition"),
        ("func.func @f() {\n", "2:1: E0101: unexpected end of the text in block definition"),
        ("func.func @f(%x: tensr<4xf32>) {}", "1:18: E0101: type expected, found 'tensr'"),
        ("func.func @f(%x: tensor<4x>) {}", "1:27: E0101: Expected shape type, found '>'"),
        ("#a = ", "1:6: E0101: attribute expected, found the end of the text"),
        ("%", "1:1: E0101: expected a name after '%'"),
        ("\0", "1:1: E0101: unexpected character U+0000"),
        ("?", "1:1: E0101: expected an operation, found '?'"),
        (
            "func.func @f(%x: tensor<1x2xf32, #et.layout<order = [1, ]>>)",
            "1:44: E0101: bad tensor layout: 'order' has an empty entry where the number of a dim is expected",
        ),
        ("^bb0:", "1:1: E0101: expected an operation, found '^bb0'"),
    ],
)
def test_an_error_says_what_it_found(text: str, message: str) -> None:
    assert _message(text) == f"m.mlir:{message}"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("aten.rleu.default", "; did you mean 'aten.relu.default'?"),
        ("aten.rleu", "; did you mean 'aten.relu.default'?"),
        ("edge.aten.rleu.default", "; did you mean 'edge.aten.relu.default'?"),
        ("edge.relu.default", "; did you mean 'edge.aten.relu.default'?"),
        ("edge.aten.add.Tensr", "; did you mean 'edge.aten.add.Tensor'? 'aten.add' has the overloads Scalar, Tensor"),
        ("aten.add.int", ": 'aten.add' has the overloads Scalar, Tensor"),
        ("aten.add", ": 'aten.add' has the overloads Scalar, Tensor"),
        ("aten.relu", "; did you mean 'aten.relu.default'?"),
        ("aten.relu.deafult", "; did you mean 'aten.relu.default'?"),
        ("et.mehtod", "; did you mean 'et.method'?"),
        ("func.fnuc", "; did you mean 'func.func'?"),
        ("read_state", "; did you mean 'et.read_state'?"),
        ("fnuc.func", "; did you mean dialect 'func'?"),
        ("tosa.add", ": there is no dialect 'tosa'"),
        ("x", ": it names no dialect"),
        ("aten.qqqqqqqqqqqq.default", ""),
        ("own.tweak", "; did you mean 'own.tweak.default'?"),
        ("own.tweak.deflt", "; did you mean 'own.tweak.default'?"),
    ],
)
def test_an_unknown_operation_has_similar_ones(name: str, advice: str) -> None:
    text = f'et.schema "own::tweak(Tensor x) -> Tensor"\nfunc.func @f(%x: tensor<4xf32>) {{\n  %0 = {name}{_TWO}\n}}'
    assert _message(text) == f"m.mlir:3:8: E0102: Operation {name} is not registered{advice}"


def test_an_unknown_argument_attribute_or_type_has_similar_ones() -> None:
    call = _TWO.replace("%x, %x", "%x, %x, alhpa = 2")
    message = _message(f"func.func @f(%x: tensor<4xf32>) {{\n  %0 = aten.add.Tensor{call}\n}}")
    assert "'aten.add.Tensor' has no argument 'alhpa'" in message.replace(
        "aten.add.Tensor has", "'aten.add.Tensor' has"
    )
    assert message.endswith("; did you mean 'alpha'?")
    assert _message('et.weight @a : i32 = #et.bolb<"x">').endswith(
        "'et.bolb' is not registered; did you mean 'et.blob'?"
    )
    assert _message("func.func @f(%x: !et.dtpe<qint8>)").endswith("did you mean 'et.dtype'?")
