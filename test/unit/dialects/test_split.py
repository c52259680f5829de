"""Splitting of input files: every line keeps its number, and only whole lines separate."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from etir.dialects.split import split_input


@given(st.lists(st.sampled_from(["a", "", "// -----", "  // -----  ", "// ------", 'x "// -----"', "// -----x"])))
def test_lines_keep_their_numbers(lines: list[str]) -> None:
    chunks = split_input("\n".join(lines))
    assert len(chunks) == 1 + sum(line.strip() == "// -----" for line in lines)
    for chunk in chunks:
        for offset, line in enumerate(chunk.text.split("\n")):
            number = chunk.first_line + offset
            if line:
                assert lines[number - 1] == line


def test_windows_lines() -> None:
    assert [c.text for c in split_input("a\r\n// -----\r\nb\r\n")] == ["a\r\n", "b\r\n"]
