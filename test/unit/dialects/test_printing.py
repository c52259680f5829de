"""Printed modules have one name for each value, and are the same when they are read and printed again."""

from __future__ import annotations

import itertools

import pytest

from etir.dialects.text import parse_module, print_module

TYPE = "tensor<2xf32>"


def method(names: tuple[str, ...]) -> str:
    """A method that returns its arguments."""
    arguments = ", ".join(f"%{name}: {TYPE}" for name in names)
    types = ", ".join([TYPE] * len(names))
    values = ", ".join(f"%{name}" for name in names)
    return f"func.func @forward({arguments}) -> ({types}) {{\n  func.return {values} : {types}\n}}\n"


def argument_names(text: str) -> list[str]:
    """The names of a method's arguments."""
    (line,) = [line for line in text.splitlines() if "func.func" in line]
    return [part.partition(":")[0] for part in line.partition("(")[2].partition(") ->")[0].split(", ")]


# A reader takes numbers off: the hints of %a_1 and %a are the same, that of %a_1_1 is a_1.
@pytest.mark.parametrize(
    "names", [*itertools.permutations(("a", "a_1", "a_1_1")), ("s_0", "s_0_1", "s_1", "s_1_1"), ("a", "a_1_1", "a_2_1")]
)
def test_no_name_is_there_twice(names: tuple[str, ...]) -> None:
    first = print_module(parse_module(method(names)))
    assert len(dict.fromkeys(argument_names(first))) == len(names)
    second = print_module(parse_module(first))
    assert print_module(parse_module(second)) == second
    returned = [line for line in second.splitlines() if "func.return" in line][0]
    assert [part.strip() for part in returned.replace("func.return", "").partition(":")[0].split(",")] == (
        argument_names(second)
    )


def test_names_of_different_hints_stay() -> None:
    assert argument_names(print_module(parse_module(method(("x", "y", "x_1", "w_b"))))) == ["%x", "%y", "%x_1", "%w_b"]
