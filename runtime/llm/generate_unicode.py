"""Writes ``unicode_data.inc``: what tokenizers ask of Unicode, as tables of C++.

    pip install unicodedata2==16.0.0 tokenizers==0.23.3
    python runtime/llm/generate_unicode.py

The version is that of the regular expressions of the package ``tokenizers`` (Oniguruma, Unicode 16), so that a text
falls into the same words here and there. The output is in the repository: a build needs nothing of this, and a newer
Python, which knows more characters, changes no token. What BERT's parts take for punctuation and marks comes from an
older Unicode there, which is taken over by asking them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import unicodedata2 as unicodedata
from tokenizers import normalizers, pre_tokenizers

CATEGORIES = re.findall("..", "CnCcCfCoCsLlLmLoLtLuMcMeMnNdNlNoPcPdPePfPiPoPsScSkSmSoZlZpZs")
"""In the order of ``Category`` in unicode.h."""

POINTS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]


def array(type: str, name: str, values: Iterable[int]) -> list[str]:
    """Lines that define an array."""
    texts = [str(value) for value in values]
    lines = [f"const {type} {name}[] = {{"]
    line = "   "
    for text in texts:
        if len(line) + len(text) + 2 > 118:
            lines.append(line)
            line = "   "
        line += f" {text},"
    return [*lines, line, "};"]


def runs(of: dict[int, int]) -> list[tuple[int, int]]:
    """Where the value changes, and to what: the value of a code point is that of the last run at or before it."""
    found: list[tuple[int, int]] = []
    for point in range(0x110000):
        value = of.get(point, 0)
        if not found or found[-1][1] != value:
            found.append((point, value))
    return found


def main() -> None:
    """Write the file beside this one."""
    assert unicodedata.unidata_version == "16.0.0"
    category = {point: CATEGORIES.index(unicodedata.category(chr(point))) for point in POINTS}
    category |= dict.fromkeys(range(0xD800, 0xE000), CATEGORIES.index("Cs"))
    lines = ["// Made by generate_unicode.py from Unicode 16.0. Not to be edited.", "// clang-format off"]
    lines += ["// Code point << 8 | category, where the category changes."]
    lines += array("uint32_t", "kCategories", (point << 8 | value for point, value in runs(category)))
    combining = {point: unicodedata.combining(chr(point)) for point in POINTS}
    lines += ["// Code point << 8 | canonical combining class, where it changes."]
    lines += array("uint32_t", "kCombining", (point << 8 | value for point, value in runs(combining)))

    pool: list[int] = []
    rows: list[tuple[int, int, int]] = []
    pairs: list[tuple[int, int, int]] = []
    for point in POINTS:
        if 0xAC00 <= point < 0xD7A4:
            continue  # Hangul, by arithmetic
        character = chr(point)
        canonical, compatible = (unicodedata.normalize(form, character) for form in ("NFD", "NFKD"))
        for flag, text in ((0, canonical), (1, compatible)):
            if text != (canonical if flag else character):
                rows.append((point << 1 | flag, len(pool), len(text)))
                pool += map(ord, text)
        parts = unicodedata.decomposition(character).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            first, second = (int(part, 16) for part in parts)
            if unicodedata.normalize("NFC", chr(first) + chr(second)) == character:
                pairs.append((first, second, point))
    pairs.sort()
    lines += ["// Code point << 1 | whether it is a compatible decomposition; its place in the pool: at << 5 | length."]
    lines += array("uint32_t", "kDecomposed", (key for key, _, _ in rows))
    lines += array("uint32_t", "kDecomposedAt", (at << 5 | length for _, at, length in rows))
    lines += array("uint32_t", "kDecomposedPool", pool)
    lines += ["// First, second, composed."]
    lines += array("uint32_t", "kComposed", (value for row in pairs for value in row))
    lower = [(point, ord(text)) for point in POINTS if len(text := chr(point).lower()) == 1 and text != chr(point)]
    lines += ["// Code point, lower case."]
    lines += array("uint32_t", "kLower", (value for row in lower for value in row))
    bert = pre_tokenizers.BertPreTokenizer()
    strip = normalizers.BertNormalizer(False, False, True, False)
    accents = normalizers.StripAccents()
    sets = {
        "kBertPunctuation": lambda text: len(bert.pre_tokenize_str(f"a{text}b")) == 3,
        "kBertMarks": lambda text: strip.normalize_str(text) == "",
        "kAccents": lambda text: accents.normalize_str(text) == "",
    }
    lines += ["// Sets: code point << 8 | whether it is in, where that changes."]
    for name, has in sets.items():
        members = {point: 1 for point in POINTS if has(chr(point))}
        lines += array("uint32_t", name, (point << 8 | value for point, value in runs(members)))
    lines += ["// clang-format on"]
    Path(__file__).with_name("unicode_data.inc").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
