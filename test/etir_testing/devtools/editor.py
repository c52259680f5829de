"""An editor for tests: a client of the language server, which runs in a process of its own, over its pipes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self, TypeVar

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

R = TypeVar("R")
SECONDS = 60


class Editor:
    """A running server and what it has said. To be closed."""

    def __init__(self, root: Path, *, shows: bool = True, encoding: str | None = None):
        self.root = root
        self.log: list[str] = []
        self.shown: list[str] = []
        self._runner = asyncio.Runner()
        self._client = LanguageClient("test", "1")
        self._found: dict[str, list[lsp.PublishDiagnosticsParams]] = {}
        self._arrived = asyncio.Event()
        self._register()
        self._run(self._start(shows, encoding))

    def _register(self) -> None:
        @self._client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def found(params: lsp.PublishDiagnosticsParams) -> None:
            self._found.setdefault(params.uri, []).append(params)
            self._arrived.set()

        @self._client.feature(lsp.WINDOW_LOG_MESSAGE)
        def log(params: lsp.LogMessageParams) -> None:
            self.log.append(params.message)

        @self._client.feature(lsp.WINDOW_SHOW_MESSAGE)
        def message(params: lsp.ShowMessageParams) -> None:
            self.log.append(params.message)

        @self._client.feature(lsp.WINDOW_SHOW_DOCUMENT)
        def show(params: lsp.ShowDocumentParams) -> lsp.ShowDocumentResult:
            self.shown.append(params.uri)
            return lsp.ShowDocumentResult(True)

    async def _start(self, shows: bool, encoding: str | None) -> None:
        await self._client.start_io(sys.executable, "-m", "etir.tools.et_lsp")
        general = None
        if encoding is not None:
            general = lsp.GeneralClientCapabilities(position_encodings=[lsp.PositionEncodingKind(encoding)])
        window = lsp.WindowClientCapabilities(show_document=lsp.ShowDocumentClientCapabilities(True))
        capabilities = lsp.ClientCapabilities(general=general, window=window)
        options = {"showsResults": shows}
        self.started = await self._client.initialize_async(
            lsp.InitializeParams(capabilities, root_uri=self.root.as_uri(), initialization_options=options)
        )
        self._client.initialized(lsp.InitializedParams())

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        return self._runner.run(asyncio.wait_for(work, SECONDS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        async def stop() -> None:
            await self._client.shutdown_async(None)
            self._client.exit(None)
            await self._client.stop()

        self._run(stop())
        self._runner.close()

    # --- files -------------------------------------------------------------------------------------------------------

    def uri(self, name: str) -> str:
        return (self.root / name).as_uri()

    def open(self, name: str, text: str, *, language: str = "etir") -> list[lsp.Diagnostic]:
        """Open a file; returns what is wrong with it."""
        item = lsp.TextDocumentItem(self.uri(name), language, 1, text)
        self._client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return [] if language == "python" else self._diagnostics(name)

    def edit(self, name: str, line: int, start: int, end: int, text: str) -> list[lsp.Diagnostic]:
        """Write something else into a line; returns what is wrong then."""
        place = lsp.Range(lsp.Position(line, start), lsp.Position(line, end))
        return self.change(name, lsp.TextDocumentContentChangePartial(range=place, text=text))

    def change(self, name: str, change: lsp.TextDocumentContentChangeEvent) -> list[lsp.Diagnostic]:
        identifier = lsp.VersionedTextDocumentIdentifier(2, self.uri(name))
        self._client.text_document_did_change(lsp.DidChangeTextDocumentParams(identifier, [change]))
        return self._diagnostics(name)

    def close(self, name: str) -> list[lsp.Diagnostic]:
        self._client.text_document_did_close(lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(self.uri(name))))
        return self._diagnostics(name)

    def _diagnostics(self, name: str) -> list[lsp.Diagnostic]:
        uri = self.uri(name)

        async def wait() -> lsp.PublishDiagnosticsParams:
            while not self._found.get(uri):
                self._arrived.clear()
                await self._arrived.wait()
            return self._found[uri].pop(0)

        return list(self._run(wait()).diagnostics)

    # --- questions ---------------------------------------------------------------------------------------------------

    def _at(self, name: str, line: int, column: int) -> dict[str, Any]:
        return {
            "text_document": lsp.TextDocumentIdentifier(self.uri(name)),
            "position": lsp.Position(line, column),
        }

    def hover(self, name: str, line: int, column: int) -> str:
        found = self._run(self._client.text_document_hover_async(lsp.HoverParams(**self._at(name, line, column))))
        return found.contents.value if found is not None and isinstance(found.contents, lsp.MarkupContent) else ""

    def definition(self, name: str, line: int, column: int) -> tuple[str, int, int] | None:
        """File, line and column."""
        params = lsp.DefinitionParams(**self._at(name, line, column))
        found = self._run(self._client.text_document_definition_async(params))
        if not isinstance(found, lsp.Location):
            return None
        return found.uri.rpartition("/")[2], found.range.start.line, found.range.start.character

    def references(self, name: str, line: int, column: int, *, declaration: bool = True) -> list[tuple[str, int, int]]:
        params = lsp.ReferenceParams(context=lsp.ReferenceContext(declaration), **self._at(name, line, column))
        found = self._run(self._client.text_document_references_async(params)) or []
        return [(f.uri.rpartition("/")[2], f.range.start.line, f.range.start.character) for f in found]

    def complete(self, name: str, line: int, column: int) -> list[lsp.CompletionItem]:
        params = lsp.CompletionParams(**self._at(name, line, column))
        found = self._run(self._client.text_document_completion_async(params))
        return list(found.items) if isinstance(found, lsp.CompletionList) else []

    def outline(self, name: str) -> list[lsp.DocumentSymbol]:
        params = lsp.DocumentSymbolParams(lsp.TextDocumentIdentifier(self.uri(name)))
        found = self._run(self._client.text_document_document_symbol_async(params)) or []
        return [symbol for symbol in found if isinstance(symbol, lsp.DocumentSymbol)]

    def actions(self, name: str, line: int) -> dict[str, lsp.CodeAction | lsp.Command]:
        """By title."""
        place = lsp.Range(lsp.Position(line, 0), lsp.Position(line, 0))
        identifier = lsp.TextDocumentIdentifier(self.uri(name))
        params = lsp.CodeActionParams(identifier, place, lsp.CodeActionContext([]))
        found = self._run(self._client.text_document_code_action_async(params)) or []
        return {action.title: action for action in found}

    def command(self, command: str, *arguments: object) -> Any:
        params = lsp.ExecuteCommandParams(command, arguments=list(arguments))
        return self._run(self._client.workspace_execute_command_async(params))
