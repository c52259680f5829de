"""What the command-line tools share: reading and writing, printing diagnostics, exit codes.

A tool's body takes parsed arguments and raises ``EtirError`` for anything that is wrong with its input.
:func:`run_tool` turns that, and unreadable or unwritable files, into diagnostics on standard error and exit code 1; a
wrong command line exits with 2. Output is written whole and only at the end, so that a failing tool leaves no half of a
file.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from etir.diagnostics import Diagnostic, EtirError, SourceLocation
from etir.extensions import report_warnings_to
from etir.tools.errors import E0901, E0902, E0903, E0909, E0921
from etir.tools.kinds import HEAD, refuse_others
from etir.tools.startup import fast_start

OK, FAILED, USAGE = 0, 1, 2
INTERRUPTED = 130
"""The exit code after ctrl-C, as shells have it: 128 and the number of SIGINT."""
"""Exit codes: done; diagnostics were printed; the command line is wrong."""

STDIN_NAME = "<stdin>"

_STYLES = (
    (re.compile(r"^( +\^)$"), "\x1b[1;32m"),
    (re.compile(r"\b(error\[E\d+\]:)"), "\x1b[1;31m"),
    (re.compile(r"\b(warning\[E\d+\]:)"), "\x1b[1;35m"),
    (re.compile(r"\b(remark\[E\d+\]:)"), "\x1b[1;34m"),
    (re.compile(r"^  (note:|help:)"), "\x1b[1;36m"),
)


class Console:
    """Prints diagnostics with the source line they point at, in color if wanted.

    ``sources`` maps a file name to its text; lines of other files are not shown.
    """

    def __init__(self, color: str = "auto"):
        self.sources: dict[str, str] = {}
        self._color = color

    def _use_color(self) -> bool:
        if self._color == "auto":
            return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        return self._color == "always"

    def set_color(self, color: str) -> None:
        """``auto`` (when standard error is a terminal), ``always`` or ``never``."""
        self._color = color

    def source_line(self, diagnostic: Diagnostic) -> str | None:
        """The text of the line a diagnostic points at, if the file is known, or is the Python source of a model."""
        location = diagnostic.location
        if location is None or not location.line:
            return None
        if location.file not in self.sources:
            return _python_line(location)
        lines = self.sources[location.file].split("\n")
        return lines[location.line - 1].rstrip("\r") if location.line <= len(lines) else None

    def report(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Print diagnostics on standard error."""
        for diagnostic in diagnostics:
            text = diagnostic.render(self.source_line(diagnostic))
            if self._use_color():
                text = "\n".join(_paint(line) for line in text.split("\n"))
            print(text, file=sys.stderr)


def _python_line(location: SourceLocation) -> str | None:
    if not location.file.endswith(".py"):
        return None
    import linecache

    return linecache.getline(location.file, location.line).strip() or None


def _paint(line: str) -> str:
    for pattern, style in _STYLES:
        if match := pattern.search(line):
            start, end = match.span(1)
            return f"{line[:start]}{style}{line[start:end]}\x1b[0m{line[end:]}"
    return line


class ToolParser(argparse.ArgumentParser):
    """An argument parser that reports a wrong command line as diagnostic E0901 and exits with 2."""

    def __init__(self, prog: str, description: str, epilog: str | None = None):
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_argument("--version", action=_PrintVersion, nargs=0, help="print the version and exit")
        self.add_argument("--debug", action="store_true", help="show Python tracebacks of unexpected errors")
        self.add_argument(
            "--color", choices=("auto", "always", "never"), default="auto", help="color diagnostics (default: auto)"
        )

    def add_completions(self) -> None:
        """Add what only a shell that completes a command line has to know."""

    def error(self, message: str, help: str | None = None) -> NoReturn:
        """Print the problem and exit."""
        lists = f"{self.prog} --help lists the options"
        Console().report([E0901.diagnostic(f"{self.prog}: {message}", help=help or lists)])
        raise SystemExit(USAGE)


def add_replace_weights(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:  # pyright: ignore[reportPrivateUsage]
    """The option that gives weights other bytes on purpose; ``replacements.py`` does it."""
    parser.add_argument(
        "--replace-weights",
        dest="replacements",
        action="append",
        default=[],
        metavar="FILE",
        help="other bytes for weights and states, by name: a .safetensors or an .npz file",
    )


class _PrintVersion(argparse.Action):
    """Looks the version up only when it is asked for: package metadata takes longer to read than the arguments."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"{parser.prog} {tool_version()}")
        raise SystemExit(OK)


def tool_version() -> str:
    """etir's version and that of the framework it runs on."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{version('etir')} (xdsl {version('xdsl')})"
    except PackageNotFoundError:
        return "(not installed)"


def usage_error(message: str, help: str | None = None) -> EtirError:
    """Options that parse but do not go together."""
    return E0901.error(message, help=help)


def run_tool(
    parser: ToolParser, body: Callable[[argparse.Namespace, Console], int], argv: Sequence[str] | None = None
) -> int:
    """Parse the command line, run ``body``, print what goes wrong. Returns the exit code."""
    if "_ARGCOMPLETE" in os.environ:
        complete(parser)
    fast_start()
    console = Console()
    report_warnings_to(lambda warning: console.report([warning]))
    debug = "--debug" in (sys.argv[1:] if argv is None else argv)
    try:
        arguments = parser.parse_args(argv)
        console.set_color(arguments.color)
        code = body(arguments, console)
        sys.stdout.flush()
        return code
    except EtirError as error:
        console.report(error.diagnostics)
        if debug and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        return FAILED
    except BrokenPipeError:
        # The reader of our output is gone; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        if debug:
            traceback.print_exc()
        return INTERRUPTED
    except MemoryError as error:
        if debug:
            traceback.print_exception(error)
        console.report([E0921.diagnostic(str(error) or "out of memory")])
        return FAILED
    except Exception as error:  # Last resort: whatever escapes is a bug, and users get one line of it.
        if debug:
            traceback.print_exception(error)
        message = (str(error).splitlines() or [""])[0]
        console.report([E0909.diagnostic(f"{type(error).__name__}: {message}".rstrip(": "))])
        return FAILED


def complete(parser: ToolParser) -> None:
    """Answer a shell that asks what a command line can go on with (argcomplete), and exit.

    The shell says so in the environment, so that no other run looks for the package.
    """
    try:
        import argcomplete
    except ImportError:
        return
    parser.add_completions()
    argcomplete.autocomplete(parser)


def read_bytes(path: str) -> tuple[str, bytes]:
    """The name for diagnostics and the bytes of an input; ``-`` is standard input. Raises error E0902."""
    if path == "-":
        return STDIN_NAME, sys.stdin.buffer.read()
    if not path:
        raise E0902.error("the name of the input is empty")
    try:
        return path, Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise E0902.error(f"cannot read '{path}': {_reason(error)}") from None
    except MemoryError:
        size = Path(path).stat().st_size
        raise E0921.error(f"the file has {size:,} bytes", SourceLocation(path)) from None


def read_head(path: str) -> bytes:
    """The first bytes of a file, enough to tell its kind. Raises error E0902."""
    if not path:
        raise E0902.error("the name of the input is empty")
    try:
        with Path(path).open("rb") as file:
            return file.read(HEAD)
    except (OSError, ValueError) as error:
        raise E0902.error(f"cannot read '{path}': {_reason(error)}") from None


def read_text(path: str, console: Console, *, may_be_empty: bool = True) -> tuple[str, str]:
    """The name and the text of an input; its lines are then shown with diagnostics. Raises error E0902."""
    name, data = read_bytes(path)
    if data or not may_be_empty:
        refuse_others(name, data, "text")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise E0902.error(f"'{name}' is not UTF-8 text: byte {error.start} is 0x{data[error.start]:02x}") from None
    console.sources[name] = text
    return name, text


def check_output(path: str | None) -> None:
    """Refuse a file that cannot be written, before the work is done. Raises error E0903."""
    if path is None or path == "-":
        return
    if not path:
        raise E0903.error("the name of the output is empty")
    target = Path(path)
    if target.is_dir():
        raise E0903.error(f"cannot write '{path}': Is a directory")
    if not target.parent.is_dir():
        raise E0903.error(f"cannot write '{path}': there is no folder '{target.parent}'")


def make_folder(path: str | None) -> None:
    """Make a folder for output, with those above it. Raises error E0903."""
    if path is None:
        return
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise E0903.error(f"cannot make the folder '{path}': {_reason(error)}") from None


def _reason(error: OSError | ValueError) -> str:
    """What the system says of a file, without the name, which stands in the message already."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def write_output(path: str, data: str | bytes | memoryview) -> None:
    """Write to a file, whole or not at all, or to standard output (``-``). Raises error E0903.

    What is not an ordinary file (``/dev/null``, a pipe) is written in place.
    """
    raw = data.encode() if isinstance(data, str) else data
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(raw)
        return
    check_output(path)
    from etir.dialects.et.weights import write_atomically

    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                file.write(raw)
        else:
            write_atomically(target.resolve(), [raw])
    except OSError as error:
        raise E0903.error(f"cannot write '{path}': {error.strerror or error}") from None
