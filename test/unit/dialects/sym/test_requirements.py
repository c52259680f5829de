"""What types require of sizes: the rules for hand-written shapes, and that they hold for the shapes that fit alone."""

from __future__ import annotations

import itertools

import pytest

from etir.dialects.sym.expr import parse
from etir.dialects.sym.requirements import LARGEST, Requirements, Size, requirements

RANGES: dict[str, tuple[int, int | None]] = {"a": (0, 4), "b": (3, 5), "c": (0, None)}


def required(*shapes: tuple[object, ...] | None) -> Requirements:
    """The requirements of shapes whose symbolic sizes are written as text."""
    parsed: list[list[Size] | None] = [
        None if shape is None else [d if isinstance(d, int) else parse(str(d)) for d in shape] for shape in shapes
    ]
    return requirements(parsed, RANGES, [f"x{i}" for i in range(len(shapes))])


def rules(*shapes: tuple[object, ...] | None) -> list[tuple[int, int, str, str, int]]:
    """Those that runtimes do not follow anyway."""
    return [(r.input, r.dim, str(r.low), str(r.high), r.step) for r in required(*shapes).rules if not r.counted]


def test_what_runtimes_compare_is_no_rule() -> None:
    assert rules((2, 3), ("a",), None, ("c",)) == []


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ((("a", 3),), [(0, 1, "3", "3", 1)]),
        ((("b",),), [(0, 0, "3", "5", 1)]),
        ((("c", "a"),), [(0, 0, "0", str(LARGEST), 1), (0, 1, "0", "4", 1)]),
        ((("a",), ("a",)), [(1, 0, "a", "a", 1)]),
        # A plain dim tells the symbol, also when it comes later.
        ((("2 * b + 1",), ("b",)), [(0, 0, "2 * b + 1", "2 * b + 1", 1), (1, 0, "3", "5", 1)]),
        ((("2 * b + 1",),), [(0, 0, "7", "11", 2)]),
        ((("2 * a + 1", "a * c"),), [(0, 0, "1", "9", 2)]),
    ],
)
def test_rules(shapes: tuple[tuple[object, ...], ...], expected: list[tuple[int, int, str, str, int]]) -> None:
    assert rules(*shapes) == expected


@pytest.mark.parametrize(
    "shapes",
    [(("a", 3), ("b", "a")), (("2 * b + 1", "b"),), (("2 * a", 2), ("a + 1", 2)), (("a", "b", "a * b"),)],
)
def test_exactly_the_shapes_of_some_values_fit(shapes: tuple[tuple[object, ...], ...]) -> None:
    """By brute force over all values of the symbols; a least value of up to 2 does not count."""
    known = required(*shapes)
    sizes = range(13)
    fitting = {
        tuple(
            tuple(d if isinstance(d, int) else int(parse(str(d)).substitute({"a": a, "b": b})) for d in shape)
            for shape in shapes
        )
        for a in range(RANGES["a"][1] + 1)  # type: ignore[operator]
        for b in range(RANGES["b"][0], RANGES["b"][1] + 1)  # type: ignore[operator]
    }
    count = sum(map(len, shapes))
    for flat in itertools.product(sizes, repeat=count):
        rest = iter(flat)
        given = tuple(tuple(itertools.islice(rest, len(shape))) for shape in shapes)
        assert (not list(known.broken(given))) == (given in fitting), given


def test_messages_name_inputs_and_dims() -> None:
    known = required(("a", 3), ("2 * a",))
    broken = [f"{rule.text}, not {size}" for rule, size in known.broken([(2, 4), (5,)])]
    assert broken == [
        "dim 1 of input 'x0' is 3, not 4",
        "dim 0 of input 'x1' is 2 * a, with 'a' from dim 0 of input 'x0', not 5",
    ]
