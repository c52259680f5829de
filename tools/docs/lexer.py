"""Colors for MLIR text and for commands with their output on the site.

Pygments has no lexer for the former; the one that it has for the latter takes a line of output that starts with ``%``
for a command.
"""

# pyright: standard
# Pygments has no types.

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups, using
from pygments.lexers.shell import BashLexer
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, Punctuation, String, Text

__all__ = ["MlirLexer", "TranscriptLexer"]


class MlirLexer(RegexLexer):
    """Operations, values, symbols, attributes and types of MLIR's custom and generic form."""

    name = "MLIR"
    aliases: ClassVar[Sequence[str]] = ["mlir"]
    filenames: ClassVar[Sequence[str]] = ["*.mlir"]

    tokens: ClassVar = {
        "root": [
            (r"\s+", Text),
            (r"//[^\n]*", Comment.Single),
            (r'"(?:[^"\\\n]|\\.)*"', String),
            (r"%[\w$.-]+(?:#\d+)?", Name.Variable),
            (r"@[\w$.-]+", Name.Function),
            (r"\^[\w$.-]+", Name.Label),
            (r"#[A-Za-z_][\w.]*", Name.Decorator),
            (r"![A-Za-z_][\w.]*", Keyword.Type),
            (r"(?:tensor|vector|memref|complex|tuple)(?=<)", Keyword.Type),
            (r"(?:\d+|\?)(?:x(?:\d+|\?))*x(?=[a-z!])", Number),
            (r"(?:bf16|f16|f32|f64|i\d+|si\d+|ui\d+|index)\b", Keyword.Type),
            (r"0x[0-9A-Fa-f]+|[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?", Number),
            (r"(?:true|false|none|unit|dense)\b", Keyword.Constant),
            (r"(?:[A-Za-z_][\w$]*\.)+[A-Za-z_][\w$]*", Name.Builtin),
            (r"(?:attributes|private|public|at|on|in|to|loc|pools|late|dynamic|unbound|caller|state)\b", Keyword),
            (r"->|[=+*/-]", Operator),
            (r"[(){}\[\]<>,:;.?|&]", Punctuation),
            (r"[A-Za-z_][\w$]*", Name),
            (r".", Text),
        ]
    }


class TranscriptLexer(RegexLexer):
    """Commands after ``$ ``, and lines of output."""

    name = "Transcript"
    aliases: ClassVar[Sequence[str]] = ["transcript"]

    tokens: ClassVar = {
        "root": [
            (r"^(\$ )(.*\n?)", bygroups(Generic.Prompt, using(BashLexer))),
            (r".*\n", Generic.Output),
        ]
    }
