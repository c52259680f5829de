"""Values that are computed once for an attribute."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import IntAttr

from etir.dialects.kept import kept


def test_values_are_computed_once_for_each_attribute() -> None:
    asked: list[int] = []

    @kept
    def double(attribute: IntAttr) -> int:
        """Twice the number."""
        asked.append(attribute.data)
        return 2 * attribute.data

    one, equal, other = IntAttr(3), IntAttr(3), IntAttr(4)
    assert [double(a) for a in (one, one, other, one, equal)] == [6, 6, 8, 6, 6]
    assert asked == [3, 4, 3]
    assert one == equal and str(one) == str(IntAttr(3)) and hash(one) == hash(IntAttr(3))
    assert double.__doc__ == "Twice the number."


def test_functions_do_not_share_values_and_errors_come_again() -> None:
    @kept
    def name(attribute: IntAttr) -> str:
        if attribute.data < 0:
            raise ValueError("negative")
        return str(attribute.data)

    @kept
    def nothing(attribute: IntAttr) -> None:
        return None

    attribute, negative = IntAttr(1), IntAttr(-1)
    assert (name(attribute), nothing(attribute), name(attribute), nothing(attribute)) == ("1", None, "1", None)
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            name(negative)
