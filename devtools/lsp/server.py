"""The language server: the protocol on one side, documents and what is known of them on the other.

``features`` has what is answered to each request, this module the files that are open and what is said of them unasked.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from etir.devtools.errors import E1430
from etir.devtools.lsp import actions
from etir.devtools.lsp.beside import Beside, Neighbors
from etir.devtools.lsp.document import Document, Place, Problem
from etir.devtools.lsp.folders import Folders
from etir.devtools.lsp.positions import apply_edits, from_units, to_units
from etir.diagnostics import EtirError, Severity, SourceLocation

QUIET = 0.1
"""Seconds without an edit after which diagnostics are sent."""


_SEVERITIES = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.REMARK: lsp.DiagnosticSeverity.Information,
}


class Server(LanguageServer):
    """All open files. ``new_context`` gives the context that texts are read in."""

    def __init__(self, new_context: actions.NewContext, version: str):
        super().__init__("et-lsp", version, text_document_sync_kind=lsp.TextDocumentSyncKind.Incremental)
        self.new_context = new_context
        self.documents: dict[str, Document] = {}
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int | None] = {}
        self.neighbors = Neighbors(self.tell)
        self.folders = Folders(new_context)
        self.client_shows = False
        """Whether the client shows results of commands itself."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.worker = ThreadPoolExecutor(1)
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    # --- files -------------------------------------------------------------------------------------------------------

    @property
    def encoding(self) -> str:
        """What columns count."""
        found = self.workspace.position_encoding
        return str(getattr(found, "value", found) or "utf-16")

    def open(self, uri: str, text: str, version: int | None) -> None:
        """A file is open; Python files are asked about only."""
        self.texts[uri], self.versions[uri] = text, version
        if not uri.endswith(".py"):
            self.publish(uri)

    def edit(self, uri: str, changes: Sequence[lsp.TextDocumentContentChangeEvent], version: int | None) -> None:
        """A file has changed; what is wrong with it is said once the typing stops."""
        edits = [(_range_of(change), change.text) for change in changes]
        self.texts[uri] = apply_edits(self.texts.get(uri, ""), edits, self.encoding)
        self.versions[uri] = version
        if uri.endswith(".py"):
            return
        if (timer := self._timers.pop(uri, None)) is not None:
            timer.cancel()
        self._timers[uri] = asyncio.get_running_loop().call_later(QUIET, self.publish, uri)

    def close(self, uri: str) -> None:
        """A file is not open any more."""
        if (timer := self._timers.pop(uri, None)) is not None:
            timer.cancel()
        for known in (self.documents, self.texts, self.versions):
            known.pop(uri, None)
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    def document(self, uri: str) -> Document | None:
        """An open file as it is now, or None."""
        text = self.texts.get(uri)
        if text is None or uri.endswith(".py"):
            return None
        known = self.documents.get(uri)
        if known is None:
            known = self.documents[uri] = Document(text, self.new_context)
        elif known.text != text:
            known.update(text)
        return known

    def publish(self, uri: str) -> None:
        """Say what is wrong with a file."""
        self._timers.pop(uri, None)
        try:
            document = self.document(uri)
            if document is None:
                return
            found = [self.diagnostic(document, problem) for problem in document.problems]
        except Exception as error:
            self.tell(unexpected(error))
            return
        params = lsp.PublishDiagnosticsParams(uri, found, self.versions.get(uri))
        self.text_document_publish_diagnostics(params)

    def beside(self, uri: str) -> Beside | None:
        """What lies beside a file."""
        path = path_of(uri)
        return None if path is None else self.neighbors.of(path)

    def tell(self, message: str) -> None:
        """Put a message into the client's log."""
        self.window_log_message(lsp.LogMessageParams(lsp.MessageType.Warning, message))

    # --- places ------------------------------------------------------------------------------------------------------

    def range(self, document: Document, place: Place) -> lsp.Range:
        """A place in a text as the client counts."""
        return lsp.Range(
            self._position(document, place.line, place.column),
            self._position(document, place.end_line, place.end_column),
        )

    def _position(self, document: Document, line: int, column: int) -> lsp.Position:
        first, part, _ = document.at(line, 0)
        return lsp.Position(line, to_units(part.line_text(line - first), column, self.encoding))

    def column(self, document: Document, position: lsp.Position) -> tuple[int, int]:
        """Line and character that the client means."""
        first, part, _ = document.at(position.line, 0)
        return position.line, from_units(part.line_text(position.line - first), position.character, self.encoding)

    def diagnostic(self, document: Document, problem: Problem) -> lsp.Diagnostic:
        """A problem as the client shows it: notes and the next step are part of the message."""
        found = problem.diagnostic
        more = [*(f"note: {note}" for note in found.notes), *([f"help: {found.help}"] if found.help else [])]
        return lsp.Diagnostic(
            range=self.range(document, problem.place),
            message="\n".join([found.message, *more]),
            severity=_SEVERITIES[found.severity],
            code=found.id.id,
            source="etir",
        )

    def python_file(self, uri: str, at: SourceLocation) -> Path | None:
        """The file that a location names: as it is, or from the folders above the text or of the workspace."""
        named = Path(at.file)
        if named.is_absolute():
            return named if named.is_file() else None
        path = path_of(uri)
        folders = [] if path is None else list(path.parents)
        roots = [path_of(folder) for folder in self.workspace.folders]
        folders += [root for root in roots if root is not None]
        folders.append(Path.cwd())
        return next((folder / named for folder in folders if (folder / named).is_file()), None)

    def naming(self, program: Path) -> list[tuple[str, Document]]:
        """The texts that name a Python file, open ones first, then those of the workspace or of the file's folder."""
        texts = [(uri, self.document(uri)) for uri in list(self.texts)]
        roots = [root for folder in self.workspace.folders if (root := path_of(folder)) is not None]
        opened = [path for uri, _ in texts if (path := path_of(uri)) is not None]
        closed = self.folders.naming(program, roots or [program.parent], opened)
        found = [(uri, document) for uri, document in texts if document is not None]
        return found + [(uri, document) for path, document in closed if (uri := from_fs_path(str(path))) is not None]

    # --- commands ----------------------------------------------------------------------------------------------------

    async def command_result(self, work: Callable[[], str], stem: str) -> dict[str, Any]:
        """What a command gives: its text, or diagnostics; shown by the client or, if it can do that, on our behalf."""
        try:
            text = await asyncio.get_running_loop().run_in_executor(self.worker, work)
        except EtirError as error:
            diagnostics = "\n".join(d.render() for d in error.diagnostics)
            if not self.client_shows:
                self.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Error, diagnostics))
            return {"text": None, "diagnostics": diagnostics}
        except Exception as error:
            self.tell(unexpected(error))
            return {"text": None, "diagnostics": unexpected(error)}
        if not self.client_shows:
            self._show(text, stem)
        return {"text": text, "diagnostics": ""}

    def _show(self, text: str, name: str) -> None:
        window = self.client_capabilities.window
        if window is None or window.show_document is None or not window.show_document.support:
            return
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="et-lsp-")
        path = Path(self._folder.name) / name
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        uri = from_fs_path(str(path))
        assert uri is not None
        self.window_show_document(lsp.ShowDocumentParams(uri, take_focus=True))


def _range_of(change: lsp.TextDocumentContentChangeEvent) -> tuple[int, int, int, int] | None:
    place = getattr(change, "range", None)
    if place is None:
        return None
    return place.start.line, place.start.character, place.end.line, place.end.character


def unexpected(error: Exception) -> str:
    """What is said of a mistake in the server itself."""
    return E1430.diagnostic(f"{type(error).__name__}: {error}").render()


def path_of(uri: str) -> Path | None:
    """The file of an address, or None where it is no file."""
    try:
        found = to_fs_path(uri) if uri.startswith("file:") else None
    except ValueError:
        return None
    return None if found is None else Path(found)


def serve(server: Server) -> None:
    """Speak on standard input and output, until the client ends it. What is printed goes to standard error."""
    output, sys.stdout = sys.stdout, sys.stderr
    try:
        server.start_io(sys.stdin.buffer, output.buffer)
    finally:
        sys.stdout = output
