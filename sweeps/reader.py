"""From a plan's tables to a checked :class:`~etir.sweeps.plan.Plan`: all problems are collected and raised at once."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from etir.diagnostics import Diagnostic, EtirError, SourceLocation, did_you_mean, raise_if_errors
from etir.sweeps.calls import forget_changed, imported, with_paths
from etir.sweeps.errors import E1901, E1902, E1903
from etir.sweeps.places import Path as Place
from etir.sweeps.places import Places
from etir.sweeps.plan import FLOAT, MEASURES, NONE, Limits, Named, Plan, ProgramEntry, call_name

_TOP = (
    *("name", "programs", "targets", "delegates", "recipes", "options", "measure", "tolerance", "exclude", "limits"),
    *("function", "exclusive", "depends"),
)
_PROGRAM = ("name", "each", "file", "factory", "arguments", "calibration", "samples", "metric", "tolerance")
_AXES = ("program", "target", "delegates", "recipe", "options")
_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_QUANTIZE = ("block", "encodings", "skip", "smooth", "equalize", "rounding", "correct_bias", "budget", "ranges")


class Reader:
    """Reads one plan. ``folder`` is where its relative paths start, and where its own modules may be."""

    def __init__(self, data: Mapping[str, Any], places: Places, folder: Path):
        self._data, self._places, self._folder = data, places, folder.resolve()
        self._manifests: dict[str, str] = {}
        self._modules: dict[str, tuple[str, ...] | None] = {}
        self._found: list[Diagnostic] = []

    def plan(self, only: str | None = None) -> Plan:
        """The plan. Raises one error with everything that is wrong in it."""
        data = self._data
        self._known((), data, _TOP)
        function = self._function(("function",), data.get("function"))
        programs = self._programs(function is not None)
        targets = tuple(self._each("targets", ["executorch"], self._target))
        delegates = tuple(self._each("delegates", [NONE], self._delegate))
        recipes = tuple(self._each("recipes", [FLOAT], self._recipe))
        options = tuple(self._each("options", [{"name": "default"}], self._option))
        measure = tuple(self._each("measure", [m for m in MEASURES if m != "latency"], self._measure))
        for key, names in (
            ("programs", [p.name for p in programs]),
            ("delegates", [d[0] for d in delegates]),
            ("recipes", [r.name for r in recipes]),
            ("options", [o.name for o in options]),
            ("targets", targets),
        ):
            self._distinct(key, names)
        names = {
            "program": [p.name for p in programs],
            "target": list(targets),
            "delegates": [d[0] for d in delegates],
            "recipe": [r.name for r in recipes],
            "options": [o.name for o in options],
        }
        excludes = tuple(self._excludes(names))
        tolerance = self._number(("tolerance",), data.get("tolerance", 1e-3))
        limits = self._limits()
        depends = self._depends()
        exclusive = data.get("exclusive", False)
        if not isinstance(exclusive, bool):
            self._wrong(("exclusive",), "true or false", exclusive)
        raise_if_errors(self._found)
        name = str(data.get("name", "sweep"))
        found = Plan(
            name,
            tuple(programs),
            targets,
            delegates,
            recipes,
            options,
            measure,
            tolerance,
            excludes,
            only,
            function,
            exclusive,
            limits,
            depends,
            str(self._folder),
            self._manifests,
        )
        if next(found.cells(), None) is None:
            where = f"no cell fits '{only}'" if only is not None else "the grid has no cell"
            raise E1903.error(where, self._places.of(()))
        return found

    # --- what is wrong -----------------------------------------------------------------------------------------------

    def _unknown(self, path: Place, what: str, name: str, known: Iterable[str]) -> None:
        there = list(known)
        message = f"there is no {what} '{name}'{did_you_mean(name, there)}"
        help = f"there are {', '.join(there)}" if there else None
        self._found.append(E1902.diagnostic(message, self._at(path, name), help=help))

    def _wrong(self, path: Place, wanted: str, value: object) -> None:
        self._found.append(
            E1903.diagnostic(f"'{_dotted(path)}' takes {wanted}, not {value!r}", self._at(path, _text(value)))
        )

    def _as_given(self, path: Place, error: EtirError, value: object) -> None:
        """What other parts of etir say of a name: unknown here."""
        for one in error.diagnostics:
            self._found.append(
                E1902.diagnostic(one.message, self._at(path, _text(value)), help=one.help, notes=(f"{one.id}",))
            )

    def _at(self, path: Place, value: object) -> SourceLocation | None:
        return self._places.of(path, value)

    def _known(self, path: Place, table: Mapping[str, Any], known: Sequence[str]) -> None:
        for key in table:
            if key not in known:
                self._unknown((*path, key), "entry", key, known)

    def _distinct(self, key: str, names: Sequence[str]) -> None:
        for name in names:
            if not name or not name.isprintable():
                self._wrong((key,), "names of letters that can be printed", name)
        for name in (name for name, count in Counter(names).items() if count > 1):
            self._found.append(E1903.diagnostic(f"two {key} are called '{name}'", self._places.last(key, name)))

    def _each(self, key: str, default: Sequence[Any], read: Callable[[Place, Any], Any]) -> Iterable[Any]:
        items = self._data.get(key, default)
        if isinstance(items, str):
            items = [items]
        if not isinstance(items, Sequence) or not items:
            self._wrong((key,), "a list of at least one entry", items)
            return
        for index, item in enumerate(cast("Sequence[Any]", items)):
            found = read((key, index), item)
            if found is not None:
                yield found

    def _number(self, path: Place, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            self._wrong(path, "a number that is not negative", value)
            return 0.0
        return float(value)

    # --- programs ----------------------------------------------------------------------------------------------------

    def _programs(self, is_function: bool) -> list[ProgramEntry]:
        found: list[ProgramEntry] = []
        items = self._data.get("programs", [])
        if not isinstance(items, Sequence) or isinstance(items, str) or not items:
            self._wrong(("programs",), "a list of programs: [[programs]] tables, or paths of .pt2 files", items)
            return found
        for index, item in enumerate(cast("Sequence[Any]", items)):
            path = ("programs", index)
            if isinstance(item, str | Path):
                item = {"file": str(item)}
            if callable(item):
                item = {"factory": item}
            if not isinstance(item, Mapping):
                self._wrong(path, "a table with `file` or `factory`", item)
                continue
            found += self._program(path, cast("Mapping[str, Any]", item), is_function)
        return found

    def _program(self, path: Place, table: Mapping[str, Any], is_function: bool) -> list[ProgramEntry]:
        self._known(path, table, _PROGRAM)
        file, factory = table.get("file"), self._function((*path, "factory"), table.get("factory"))
        if (file is None) == (factory is None) and not is_function:
            self._wrong(path, "either `file` or `factory`", dict(table))
            return []
        if file is not None:
            file = str(self._folder / str(file))
            if not Path(file).is_file():
                self._found.append(
                    E1902.diagnostic(f"there is no file '{table['file']}'", self._at((*path, "file"), table["file"]))
                )
        arguments = table.get("arguments", {})
        if not isinstance(arguments, Mapping):
            self._wrong((*path, "arguments"), "a table", arguments)
            arguments = {}
        one = ProgramEntry(
            "",
            file,
            factory,
            dict(cast("Mapping[str, Any]", arguments)),
            self._data_source((*path, "calibration"), table.get("calibration")),
            self._data_source((*path, "samples"), table.get("samples")),
            self._function((*path, "metric"), table.get("metric")),
            self._number((*path, "tolerance"), table["tolerance"]) if "tolerance" in table else None,
        )
        if "each" in table:
            return [
                dataclasses.replace(one, name=name, arguments={"name": name, **one.arguments})
                for name in self._names((*path, "each"), table["each"])
            ]
        default = Path(file).stem if file is not None else (factory or "").rpartition(":")[2]
        name = table.get("name", default)
        if not isinstance(name, str) or not name:
            self._wrong((*path, "name"), "a name", name)
            return []
        return [dataclasses.replace(one, name=name)]

    def _names(self, path: Place, value: object) -> list[str]:
        """The names of programs: a list, or what a function gives, which has to be called for that."""
        if isinstance(value, str) or callable(value):
            function = self._function(path, value)
            if function is None:
                return []
            try:
                with with_paths([str(self._folder)]):
                    return [str(name) for name in imported(function)()]
            except EtirError as error:
                self._as_given(path, error, value)
                return []
        if isinstance(value, Sequence) and all(isinstance(name, str) for name in cast("Sequence[object]", value)):
            return list(cast("Sequence[str]", value))
        self._wrong(path, "names, or `module:function` that gives names", value)
        return []

    def _data_source(self, path: Place, value: object) -> str | None:
        """An ``.npz`` file by its whole path, or ``module:function``."""
        if isinstance(value, str) and value.endswith(".npz"):
            found = self._folder / value
            if not found.is_file():
                self._found.append(E1902.diagnostic(f"there is no file '{value}'", self._at(path, value)))
            return str(found)
        return self._function(path, value)

    def _function(self, path: Place, value: object) -> str | None:
        if value is None:
            return None
        if callable(value):
            try:
                return call_name(cast("Callable[..., Any]", value))
            except EtirError as error:
                self._found += error.diagnostics
                return None
        module, colon, name = value.partition(":") if isinstance(value, str) else ("", "", "")
        if not colon or not module or not name.isidentifier():
            self._wrong(path, "`module:function`", value)
            return None
        if module not in self._modules:
            forget_changed(module, str(self._folder))
            self._modules[module] = _top_names(module, str(self._folder))
        names = self._modules[module]
        if names is None:
            message = f"there is no module '{module}' on Python's path or beside the plan"
            self._found.append(E1902.diagnostic(message, self._at(path, value)))
        elif names and name not in names:
            message = f"there is no function in module '{module}' called '{name}'{did_you_mean(name, names)}"
            self._found.append(E1902.diagnostic(message, self._at(path, name)))
        return cast("str", value)

    # --- the other axes ----------------------------------------------------------------------------------------------

    def _target(self, path: Place, value: object) -> str | None:
        from etir.targets.manifest import load

        if not isinstance(value, str):
            self._wrong(path, "the name of a target or the path of its manifest", value)
            return None
        if value.endswith(".json") and (self._folder / value).is_file():
            self._manifests[value] = str(self._folder / value)
        try:
            load(self._manifests.get(value, value))
        except EtirError as error:
            self._as_given(path, error, value)
        return value

    def _delegate(self, path: Place, value: object) -> tuple[str, tuple[str, ...]] | None:
        from etir.backends.api.registry import parse_delegate

        name, given = None, value
        if isinstance(value, Mapping):
            table = cast("Mapping[str, Any]", value)
            self._known(path, table, ("name", "delegates"))
            name, given = table.get("name"), table.get("delegates", [])
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, Sequence) or not all(isinstance(t, str) for t in cast("Sequence[object]", texts)):
            self._wrong(path, "'none', a delegate (xnnpack, native{tune=host}), or a list of delegates", value)
            return None
        found = tuple(text for text in cast("Sequence[str]", texts) if text != NONE)
        for text in found:
            try:
                parse_delegate(text)
            except EtirError as error:
                self._as_given(path, error, text)
        return str(name) if name is not None else ("+".join(found) or NONE), found

    def _recipe(self, path: Place, value: object) -> Named | None:
        from etir.quantization.encodings import METHODS
        from etir.quantization.recipes import recipe_of

        table = cast("Mapping[str, Any]", {"recipe": value} if isinstance(value, str) else value)
        if not isinstance(table, Mapping) or not isinstance(table.get("recipe"), str):  # pyright: ignore[reportUnnecessaryIsInstance]
            self._wrong(path, "the name of a recipe, or a table with `recipe`", value)
            return None
        self._known(path, table, ("name", "recipe", *_QUANTIZE))
        recipe, name = table["recipe"], str(table.get("name", table["recipe"]))
        if recipe == FLOAT:
            return Named(name)
        try:
            recipe_of(recipe)
        except EtirError as error:
            self._as_given(path, error, recipe)
        if table.get("encodings", "minmax") not in METHODS:
            self._unknown(path, "method to choose scales", str(table["encodings"]), METHODS)
        if "ranges" in table:
            ranges = self._folder / str(table["ranges"])
            if not ranges.is_file():
                message = f"there is no file '{table['ranges']}'"
                self._found.append(E1902.diagnostic(message, self._at(path, str(table["ranges"]))))
            table = {**table, "ranges": str(ranges)}
        return Named(name, {key: item for key, item in table.items() if key != "name"})

    def _option(self, path: Place, value: object) -> Named | None:
        from etir.options import CompileOptions, compile_options

        if not isinstance(value, Mapping):
            self._wrong(path, "a table with `name` and options of etir.compile", value)
            return None
        table = dict(cast("Mapping[str, Any]", value))
        name = str(table.pop("name", f"options{path[-1]}"))
        taken = ("target", "delegates")
        fields = [field.name for field in dataclasses.fields(CompileOptions) if field.name not in taken]
        unknown = [key for key in table if key not in fields]
        for key in unknown:
            self._unknown((*path, key), "option", key, fields)
        try:
            compile_options(None, {key: item for key, item in table.items() if key not in unknown})
        except EtirError as error:
            for one in error.diagnostics:
                self._found.append(E1903.diagnostic(one.message, self._at(path, None), help=one.help))
        return Named(name, table)

    def _measure(self, path: Place, value: object) -> str | None:
        if not isinstance(value, str) or value not in MEASURES:
            self._unknown(path, "measure", str(value), MEASURES)
            return None
        return value

    # --- the rest ----------------------------------------------------------------------------------------------------

    def _excludes(self, names: Mapping[str, Sequence[str]]) -> Iterable[Mapping[str, str]]:
        items = self._data.get("exclude", [])
        if not isinstance(items, Sequence):
            self._wrong(("exclude",), "tables of patterns: [[exclude]]", items)
            return
        for index, item in enumerate(cast("Sequence[Any]", items)):
            path = ("exclude", index)
            if not isinstance(item, Mapping) or not item:
                self._wrong(path, f"a table of patterns of {', '.join(_AXES)}", item)
                continue
            table = cast("Mapping[str, str]", item)
            self._known(path, table, _AXES)
            for key, pattern in table.items():
                if key in _AXES and not any(fnmatchcase(name, str(pattern)) for name in names[key]):
                    self._unknown((*path, key), key, str(pattern), names[key])
            yield {key: str(pattern) for key, pattern in table.items() if key in _AXES}

    def _limits(self) -> Limits:
        table = self._data.get("limits", {})
        if not isinstance(table, Mapping):
            self._wrong(("limits",), "a table", table)
            return Limits()
        given = cast("Mapping[str, Any]", table)
        self._known(("limits",), given, [field.name for field in dataclasses.fields(Limits)])
        memory = given.get("memory")
        resources = given.get("resources", {})
        if not isinstance(resources, Mapping):
            self._wrong(("limits", "resources"), "a table of numbers", resources)
            resources = {}
        return Limits(
            self._number(("limits", "seconds"), given.get("seconds", 600.0)),
            None if memory is None else self._bytes(("limits", "memory"), memory),
            int(self._number(("limits", "retries"), given.get("retries", 2))),
            max(1, int(self._number(("limits", "cpus"), given.get("cpus", 1)))),
            {str(k): self._number(("limits", "resources", k), v) for k, v in cast("Any", resources).items()},
        )

    def _bytes(self, path: Place, value: object) -> int | None:
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        number, _, unit = str(value).partition(" ")
        if unit in _UNITS and number.replace(".", "", 1).isdigit():
            return int(float(number) * _UNITS[unit])
        self._wrong(path, f"bytes, or a number with one of {', '.join(_UNITS)}: '4 GB'", value)
        return None

    def _depends(self) -> tuple[str, ...]:
        patterns = self._data.get("depends", [])
        if isinstance(patterns, str) or not isinstance(patterns, Sequence):
            self._wrong(("depends",), "a list of shell patterns of files", patterns)
            return ()
        found: list[str] = []
        for pattern in map(str, cast("Sequence[object]", patterns)):
            files = [str(path) for path in sorted(self._folder.glob(pattern)) if path.is_file()]
            if not files:
                self._found.append(E1902.diagnostic(f"no file fits '{pattern}'", self._at(("depends",), pattern)))
            found += files
        return tuple(dict.fromkeys(found))


def _dotted(path: Place) -> str:
    return ".".join(str(part) for part in path) or "plan"


def _text(value: object) -> object:
    return value if isinstance(value, str) else None


def _top_names(module: str, folder: str) -> tuple[str, ...] | None:
    """The names at the top of a module's source; none for one without a source, None where there is no module."""
    try:
        with with_paths([folder]):
            spec = sys.modules[module].__spec__ if module in sys.modules else find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None:
        return None
    if spec.origin is None or not spec.origin.endswith(".py"):
        return ()
    if module in sys.modules:
        return tuple(name for name, _ in inspect.getmembers(sys.modules[module]))
    try:
        tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ()
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            if any(alias.name == "*" for alias in node.names):
                return ()
            found += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.append(node.id)
    return tuple(found)


def read_plan(source: str | Path | Mapping[str, Any] | Plan, *, only: str | None = None) -> Plan:
    """The plan of a TOML file, or of a mapping whose functions may also be functions themselves.

    ``only`` is a shell pattern of the names of cells (``digits/*/none/*``). Raises error E1901 for what is no plan, and
    one error with everything in it that is unknown (E1902) or has no sense (E1903).
    """
    if isinstance(source, Plan):
        return source if only is None else dataclasses.replace(source, only=only)
    if isinstance(source, Mapping):
        return Reader(source, Places("plan"), Path()).plan(only)
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise E1901.error(f"cannot read '{path}': {reason}") from None
    except tomllib.TOMLDecodeError as error:
        raise E1901.error(str(error), _toml_place(str(path), str(error))) from None
    return Reader(found, Places(str(path), text), path.resolve().parent).plan(only)


def _toml_place(name: str, message: str) -> Any:
    """The line and the column that the parser names."""
    found = re.search(r"line (\d+), column (\d+)", message)
    return SourceLocation(name, int(found[1]), int(found[2])) if found is not None else SourceLocation(name)
