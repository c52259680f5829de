"""Pipelines as text: ``first-pass,second-pass{option=value other=1,2}`` to passes and back.

xDSL has such a parser, but its values are typed by their spelling: it refuses ``only=aten.silu.default``, a space after
a comma, ``tolerance=1e-5`` and a bare ``{verbose}``, and it reports what is wrong without the place. Here the text is
split first, and every value is then read as the type of the option it is for (a field of the pass's dataclass), so that
nothing has to be quoted except what contains a separator. For people with mlir-opt's habits, pipelines may be nested as
mlir-opt prints them, ``builtin.module(func.func(cse,dce),canonicalize)``: a pass of etir's works on the whole module,
and on all functions in it, so that the nesting changes nothing but the spelling.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Union, cast, get_args, get_origin, get_type_hints

from xdsl.passes import ModulePass

from etir.diagnostics import Diagnostic, ErrorId, EtirError, Severity, SourceLocation, raise_if_errors
from etir.passes.errors import E0503, E0506, E0509
from etir.passes.infra.registry import current_name, find_pass

PIPELINE_FILE = "<pipeline>"
"""The file name in the locations of errors in a pipeline's text."""

_TOKEN = re.compile(r'\s+|[,{}=()]|"(?:[^"\\]|\\.)*"|[^\s,{}=()"]+|"', re.DOTALL)
_BARE = re.compile(r'[^\s,{}=()"]+')
_ANCHORS: dict[str, tuple[str, ...]] = {
    "builtin.module": ("", "builtin.module"),
    "func.func": ("", "builtin.module"),
    "et.method": ("", "builtin.module"),
    "any": ("", "builtin.module"),
}
"""Operations that passes are nested in, with those that they stand in themselves; empty for the top of a pipeline."""


@dataclass(frozen=True)
class Value:
    """One value of an option as it was written; a quoted one is never the keyword ``none``."""

    text: str
    quoted: bool = False


@dataclass(frozen=True)
class PassSpec:
    """One pass as it was written, before the pass is looked up: options in order, each with its values."""

    name: str
    options: tuple[tuple[str, tuple[Value, ...], SourceLocation | None], ...]
    location: SourceLocation | None


@dataclass(frozen=True)
class PassOption:
    """An option of a pass: its name in pipelines, its type as users read it, its default or None when required."""

    name: str
    type: str
    default: str | None


# --- reading ---------------------------------------------------------------------------------------------------------


def parse_pipeline(text: str, warnings: list[Diagnostic] | None = None) -> tuple[ModulePass, ...]:
    """The passes of a pipeline; a warning (E0509) for each former name of a pass is added to ``warnings``.

    Raises one error with everything that is wrong: E0506 for the syntax (the first place only), E0502 for each unknown
    pass, E0503 for each wrong option. Locations are in the file :data:`PIPELINE_FILE`.
    """
    passes: list[ModulePass] = []
    problems: list[Diagnostic] = []
    for spec in parse_specs(text):
        name = current_name(spec.name)
        if warnings is not None and name != spec.name:
            message = f"pass '{spec.name}' is called '{name}' now"
            warnings.append(E0509.diagnostic(message, spec.location, severity=Severity.WARNING))
        try:
            passes.append(make_pass(spec))
        except EtirError as error:
            problems.extend(d.at(spec.location) for d in error.diagnostics)
    raise_if_errors(problems)
    return tuple(passes)


class _Reader:
    """Tokens of a pipeline with their positions; white space is dropped except where it separates options."""

    def __init__(self, text: str):
        self.text = text
        self.tokens = [(m.group(), m.start()) for m in _TOKEN.finditer(text) if not m.group().isspace()]
        self.next = 0

    @property
    def token(self) -> str:
        """The next token, empty at the end."""
        return self.tokens[self.next][0] if self.next < len(self.tokens) else ""

    @property
    def location(self) -> SourceLocation:
        """Where the next token stands."""
        position = self.tokens[self.next][1] if self.next < len(self.tokens) else len(self.text)
        line = self.text.count("\n", 0, position) + 1
        return SourceLocation(PIPELINE_FILE, line, position - self.text.rfind("\n", 0, position))

    @property
    def nests(self) -> bool:
        """Whether a nested pipeline comes next: a word and an opening parenthesis."""
        return (
            self.next + 1 < len(self.tokens)
            and self.tokens[self.next + 1][0] == "("
            and bool(_BARE.fullmatch(self.token))
        )

    def accept(self, token: str) -> bool:
        """Take ``token`` if it comes next."""
        if self.token != token:
            return False
        self.next += 1
        return True

    def word(self, what: str) -> str:
        """Take a bare word."""
        token = self.token
        if not _BARE.fullmatch(token):
            self.fail(f"expected {what}")
        self.next += 1
        return token

    def fail(self, message: str) -> NoReturn:
        """Raise error E0506 at the next token."""
        found = f"'{self.token}'" if self.token else "the end"
        raise E0506.error(f"{message}, found {found}", self.location)


def parse_specs(text: str) -> list[PassSpec]:
    """Split a pipeline without looking passes up. Raises error E0506 at the first wrong place."""
    reader = _Reader(text)
    specs = [] if not reader.token else _parse_list(reader, "")
    if reader.token:
        reader.fail("expected ',' between passes")
    return specs


def _parse_list(reader: _Reader, inside: str) -> list[PassSpec]:
    """Passes and nested pipelines with commas between them; ``inside`` is the operation that they are nested in."""
    specs = _parse_element(reader, inside)
    while reader.accept(","):
        specs += _parse_element(reader, inside)
    return specs


def _parse_element(reader: _Reader, inside: str) -> list[PassSpec]:
    """A pass, or the passes of ``func.func(...)``."""
    if not reader.nests and reader.token in _ANCHORS:
        reader.next += 1
        reader.fail("expected '(' after an operation that passes are nested in")
    if not reader.nests:
        return [_parse_spec(reader)]
    anchor, location = reader.token, reader.location
    if anchor not in _ANCHORS:
        known = ", ".join(_ANCHORS)
        raise E0506.error(f"passes are nested in one of {known}, not in '{anchor}'", location)
    if inside not in _ANCHORS[anchor]:
        raise E0506.error(f"'{anchor}' does not stand in '{inside}'", location)
    reader.next += 2
    specs = [] if reader.token == ")" else _parse_list(reader, anchor)
    if not reader.accept(")"):
        reader.fail("expected ',' or ')'")
    return specs


def _parse_spec(reader: _Reader) -> PassSpec:
    location = reader.location
    name = reader.word("the name of a pass")
    options: list[tuple[str, tuple[Value, ...], SourceLocation | None]] = []
    if reader.accept("{"):
        while not reader.accept("}"):
            at = reader.location
            option = reader.word("an option or '}'")
            values: list[Value] = []
            if reader.accept("="):
                values.append(_parse_value(reader))
                while reader.accept(","):
                    values.append(_parse_value(reader))
            options.append((option, tuple(values), at))
    return PassSpec(name, tuple(options), location)


def _parse_value(reader: _Reader) -> Value:
    token = reader.token
    if not token.startswith('"'):
        return Value(reader.word("a value"))
    if token == '"':
        reader.fail("a quoted value is not closed")
    reader.next += 1
    return Value(re.sub(r"\\(.)", r"\1", token[1:-1]), quoted=True)


# --- making passes ---------------------------------------------------------------------------------------------------


def make_pass(spec: PassSpec) -> ModulePass:
    """The pass of ``spec``. Raises errors E0502 (unknown pass) and E0503 (wrong options, all of them)."""
    return read_options(find_pass(spec.name), f"pass '{spec.name}'", spec, E0503)


def read_options(cls: type[Any], owner: str, spec: PassSpec, wrong: ErrorId) -> Any:
    """An instance of the dataclass ``cls`` whose fields are the options of ``spec``.

    ``owner`` says whose options they are (``pass 'cse'``). Raises error ``wrong`` with every option that is.
    """
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    problems: list[Diagnostic] = []
    for name, given, location in spec.options:
        field = name.replace("-", "_")
        if field not in fields:
            known = [f.replace("_", "-") for f in fields]
            from difflib import get_close_matches

            near = get_close_matches(name.replace("_", "-"), known, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"it takes {', '.join(known) or 'no options'}"
            problems.append(wrong.diagnostic(f"{owner} has no option '{name}'; {hint}", location))
        elif field in values:
            problems.append(wrong.diagnostic(f"option '{name}' of {owner} is given twice", location))
        else:
            try:
                values[field] = _convert(given, hints[field])
            except ValueError as error:
                problems.append(wrong.diagnostic(f"option '{name}' of {owner} takes {error}", location))
                values[field] = None
    for name, field in fields.items():
        if name not in values and _is_required(field):
            option, kind = name.replace("_", "-"), type_text(hints[name])
            problems.append(wrong.diagnostic(f"{owner} needs option '{option}' ({kind})", spec.location))
    raise_if_errors(problems)
    try:
        return cls(**values)
    except ValueError as error:
        raise wrong.error(f"{owner}: {error}", spec.location) from None


def options_from_values(cls: type[Any], owner: str, given: Mapping[str, object], wrong: ErrorId) -> Any:
    """An instance of the dataclass ``cls`` from the values of its options, or from their texts, by name.

    Names may have hyphens. ``owner`` and ``wrong`` are those of :func:`read_options`, which raises what is wrong.
    """
    options = tuple((name.replace("_", "-"), _values_of(value), None) for name, value in given.items())
    return read_options(cls, owner, PassSpec(owner, options, None), wrong)


def _values_of(value: object) -> tuple[Value, ...]:
    if isinstance(value, (tuple, list)):
        return tuple(one for item in cast("Sequence[object]", value) for one in _values_of(item))
    return (Value(value, quoted=True) if isinstance(value, str) else Value(value_text(value)),)


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _convert(values: tuple[Value, ...], hint: Any) -> Any:
    """Values as the type of their option. Raises ``ValueError`` with what the option takes and what was given."""
    parts = _union_parts(hint)
    if len(parts) > 1:
        if NoneType in parts and values == (Value("none"),):
            return None
        for part in parts:
            if part is NoneType:
                continue
            try:
                return _convert(values, part)
            except ValueError:
                continue
        raise _mismatch(values, hint)
    if get_origin(hint) is tuple:
        return _convert_tuple(values, hint)
    if hint is bool and not values:
        return True
    if len(values) != 1:
        raise _mismatch(values, hint)
    return _convert_one(values[0], hint)


def _convert_tuple(values: tuple[Value, ...], hint: Any) -> tuple[Any, ...]:
    elements = get_args(hint)
    if len(elements) == 2 and elements[1] is Ellipsis:
        elements = (elements[0],) * len(values)
    if len(elements) != len(values):
        raise _mismatch(values, hint)
    try:
        return tuple(_convert((value,), element) for value, element in zip(values, elements, strict=True))
    except ValueError:
        raise _mismatch(values, hint) from None


def _convert_one(value: Value, hint: Any) -> Any:
    text = value.text
    if get_origin(hint) is Literal:
        for choice in get_args(hint):
            if str(choice) == text:
                return choice
        raise _mismatch((value,), hint)
    if hint is bool:
        if text in ("true", "1", "false", "0"):
            return text in ("true", "1")
        raise _mismatch((value,), hint)
    if hint is str:
        return text
    try:
        return hint(text)
    except ValueError:
        raise _mismatch((value,), hint) from None


def _mismatch(values: tuple[Value, ...], hint: Any) -> ValueError:
    given = ",".join(value.text for value in values)
    return ValueError(f"{type_text(hint)}, not {given!r}" if values else f"{type_text(hint)}, and has no value")


def _union_parts(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


# --- writing ---------------------------------------------------------------------------------------------------------


def type_text(hint: Any) -> str:
    """The type of an option as users read it: ``int``, ``greedy|optimal``, ``str,...``, ``int|none``."""
    parts = _union_parts(hint)
    if len(parts) > 1:
        return "|".join(type_text(part) for part in parts)
    if hint is NoneType:
        return "none"
    if get_origin(hint) is Literal:
        return "|".join(str(choice) for choice in get_args(hint))
    if get_origin(hint) is tuple:
        elements = get_args(hint)
        if len(elements) == 2 and elements[1] is Ellipsis:
            return f"{type_text(elements[0])},..."
        return ",".join(type_text(element) for element in elements)
    return hint.__name__


def dataclass_options(cls: type[Any]) -> tuple[PassOption, ...]:
    """The options that the fields of a dataclass are, in order: those of a pass, or of a backend."""
    hints = get_type_hints(cls)
    return tuple(
        PassOption(
            field.name.replace("_", "-"),
            type_text(hints[field.name]),
            None if _is_required(field) else ",".join(_value_texts(_default(field))) or "[]",
        )
        for field in dataclasses.fields(cls)
        if field.init
    )


def pass_options(cls: type[ModulePass]) -> tuple[PassOption, ...]:
    """The options of a pass in the order of its fields."""
    return dataclass_options(cls)


def pass_text(p: ModulePass, *, with_defaults: bool = False) -> str:
    """A pass as it stands in a pipeline; ``with_defaults`` writes every option."""
    return p.name + options_text(p, with_defaults=with_defaults)


def options_text(value: Any, *, with_defaults: bool = False) -> str:
    """The options of a dataclass instance in braces, empty when none differs from its default."""
    options: list[str] = []
    for field in dataclasses.fields(value):
        held = getattr(value, field.name)
        if not field.init or (not with_defaults and not _is_required(field) and held == _default(field)):
            continue
        texts = _value_texts(held)
        name = field.name.replace("_", "-")
        options.append(f"{name}={','.join(texts)}" if texts else name)
    return f"{{{' '.join(options)}}}" if options else ""


def pipeline_text(passes: Iterable[ModulePass], *, with_defaults: bool = False) -> str:
    """What :func:`parse_pipeline` reads back to the same passes."""
    return ",".join(pass_text(p, with_defaults=with_defaults) for p in passes)


def _value_texts(value: Any) -> Sequence[str]:
    if isinstance(value, (tuple, list)):
        return [value_text(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return [value_text(value)]


def value_text(value: Any) -> str:
    """One value of an option, quoted where that is needed."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and (value == "none" or not _BARE.fullmatch(value)):
        return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
    return str(value)
