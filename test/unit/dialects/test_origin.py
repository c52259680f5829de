"""Origins: their text, what becomes of them where operations are made and merged, and that their lack is found."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import FileLineColLoc, FusedLoc, IntAttr, NameLoc, NoneAttr, StringAttr, UnknownLoc

from etir.diagnostics import EtirError
from etir.dialects.et.origin import (
    MAX_ORIGINS,
    Mark,
    Origins,
    handed_on,
    number_origins,
    of_result,
    origins_in,
    plain,
    remove_origins,
    with_origins,
)
from etir.dialects.text import parse_module, print_module, source_location
from etir.dialects.verify import verify_module
from etir.passes.infra.rewriting import fuse_locations

PLACE = NameLoc(StringAttr("fc"), FileLineColLoc(StringAttr("m.py"), IntAttr(7), IntAttr(0)))

TEXT = """\
builtin.module {
  func.func @forward(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
    %0 = aten.add.Tensor(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc("fc"("m.py":7:0))
    %1, %2 = aten.topk.default(%0, k = 2) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi64>) loc("m.py":8:0)
    func.return %1 : tensor<2xf32> loc(unknown)
  } loc("forward"(unknown))
} loc(unknown)
"""


@pytest.mark.parametrize(
    "text",
    [
        "<17>",
        "<3, 17 value>",
        "<17 value, 17 value 1>",
        "<17 value 1 at 0>",
        "<1, 2 value 0 at 3, 2 value 1, 9>",
    ],
)
def test_text_round_trips(text: str) -> None:
    source = TEXT.replace('loc("fc"("m.py":7:0))', f'loc(fused<#et.origin{text}>["fc"("m.py":7:0), "m.py":9:1])')
    module = parse_module(source)
    printed = print_module(module, locations=True)
    assert f"fused<#et.origin{text}>[" in printed
    assert print_module(parse_module(printed), locations=True).splitlines()[:-1] == printed.splitlines()[:-1]


@pytest.mark.parametrize("text", ["<>", "<0>", "<-1>", "<value>", "<1 at 2>", "<1 value at>"])
def test_malformed_text_is_an_error(text: str) -> None:
    with pytest.raises(EtirError, match="E0101"):
        parse_module(TEXT.replace('loc("m.py":8:0)', f'loc(fused<#et.origin{text}>["m.py":8:0])'))


def test_entries_are_canonical() -> None:
    found = Origins.of([9, 3, 3], [Mark(5, 0, 0), Mark(5, 0, 0), Mark(3, 1, 0)])
    assert found == Origins((3, 5, 9), (Mark(3, 1, 0), Mark(5, 0, 0)))


def test_a_location_keeps_so_many_origins_and_all_that_are_marked() -> None:
    found = Origins.of(range(1, 1000), [Mark(900, 0, 0)])
    assert len(found.numbers) == MAX_ORIGINS and found.numbers[-1] == 900 and found.numbers[0] == 1


def test_the_plain_location_is_what_was_there() -> None:
    several = FusedLoc([PLACE, UnknownLoc()], NoneAttr())
    for place in (PLACE, UnknownLoc(), several):
        marked = with_origins(place, Origins((4,), (Mark(4, 0, 0),)))
        assert marked != place and plain(marked) == place
        assert source_location(marked) == source_location(place)
        assert with_origins(marked, None) == place


def test_what_is_made_on_the_way_has_no_marks() -> None:
    marked = with_origins(PLACE, Origins((2, 4), (Mark(4, 0, 0), Mark(4, 1, 1))))
    assert origins_in(handed_on(marked)) == Origins((2, 4))
    assert origins_in(of_result(marked, 1)) == Origins((2, 4), (Mark(4, 1, 0),))
    assert handed_on(PLACE) is PLACE


def test_modules_are_numbered_in_order_and_verified() -> None:
    module = parse_module(TEXT)
    before = print_module(module, locations=True)
    with pytest.raises(EtirError, match="E0311.*'func.func' has no origin") as raised:
        verify_module(module, origins=True)
    assert len(raised.value.diagnostics) == 4
    assert number_origins(module) == 6  # the method, its two inputs, three operations
    verify_module(module, origins=True)
    assert number_origins(module) == 6
    printed = print_module(module, locations=True)
    assert "topk" in printed and "#et.origin<5 value, 5 value 1>" in printed
    remove_origins(module)
    assert print_module(module, locations=True) == before


def test_numbers_go_on_after_those_that_are_there() -> None:
    module = parse_module(TEXT.replace('loc("m.py":8:0)', 'loc(fused<#et.origin<40>>["m.py":8:0])'))
    assert number_origins(module) == 45


def test_fused_locations_unite_origins() -> None:
    module = parse_module(TEXT)
    ops = [op for op in module.walk() if op.results]
    untraced = fuse_locations(ops)
    number_origins(module)
    fused = fuse_locations(ops)
    assert origins_in(fused) == Origins((4, 5), (Mark(4, 0, 0), Mark(5, 0, 0), Mark(5, 1, 1)))
    assert plain(fused) == untraced
