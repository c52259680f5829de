"""What the server answers: a handler for each request of the protocol, and the commands.

Requests are answered in the order in which they come, from the text as it is then; what runs passes does so in a
thread. A request that fails is logged and answered with nothing: no text ends the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls.uris import from_fs_path

from etir.devtools.errors import E1432
from etir.devtools.lsp import actions
from etir.devtools.lsp.completion import complete
from etir.devtools.lsp.document import Document, Place
from etir.devtools.lsp.hover import hover, of_python_line
from etir.devtools.lsp.outline import Entry, outline
from etir.devtools.lsp.server import Server, path_of, unexpected
from etir.targets.manifest import available, load

R = TypeVar("R")

RUN_PASSES, EXPLAIN, PASSES = "etir.runPasses", "etir.explain", "etir.passes"

_PROPOSALS = {
    "value": lsp.CompletionItemKind.Variable,
    "symbol": lsp.CompletionItemKind.Reference,
    "block": lsp.CompletionItemKind.Constant,
    "operator": lsp.CompletionItemKind.Function,
    "operation": lsp.CompletionItemKind.Keyword,
    "argument": lsp.CompletionItemKind.Property,
}
_SYMBOLS = {
    "module": lsp.SymbolKind.Module,
    "function": lsp.SymbolKind.Function,
    "weight": lsp.SymbolKind.Constant,
    "dim": lsp.SymbolKind.TypeParameter,
    "block": lsp.SymbolKind.Namespace,
    "symbol": lsp.SymbolKind.Variable,
}


def make_server(new_context: actions.NewContext, version: str) -> Server:
    """A server with all its features, that is not running yet."""
    server = Server(new_context, version)
    for feature, handler in _FEATURES.items():
        made = server.feature(feature, _OPTIONS[feature]) if feature in _OPTIONS else server.feature(feature)
        made(handler)
    for command, run in _COMMANDS.items():
        server.command(command)(run)
    return server


def _safe(empty: Any = None) -> Callable[[Callable[..., R]], Callable[..., R | Any]]:
    """A handler that answers with ``empty`` where it would fail, and says so in the client's log."""

    def decorate(handler: Callable[..., R]) -> Callable[..., R | Any]:
        @wraps(handler)
        def call(server: Server, *params: Any) -> R | Any:
            try:
                return handler(server, *params)
            except Exception as error:
                server.tell(unexpected(error))
                return empty

        return call

    return decorate


@_safe()
def _initialized(server: Server, params: lsp.InitializedParams) -> None:
    # What the first hover and the first completion need takes a while to read.
    def prepare() -> None:
        for target in available():
            load(target)

    server.worker.submit(prepare)


@_safe()
def _initialize(server: Server, params: lsp.InitializeParams) -> None:
    options = params.initialization_options
    server.client_shows = bool(options.get("showsResults")) if isinstance(options, dict) else False


@_safe()
def _did_open(server: Server, params: lsp.DidOpenTextDocumentParams) -> None:
    item = params.text_document
    server.open(item.uri, item.text, item.version)


@_safe()
def _did_change(server: Server, params: lsp.DidChangeTextDocumentParams) -> None:
    server.edit(params.text_document.uri, params.content_changes, params.text_document.version)


@_safe()
def _did_close(server: Server, params: lsp.DidCloseTextDocumentParams) -> None:
    server.close(params.text_document.uri)


@_safe()
def _hover(server: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    uri = params.text_document.uri
    if uri.endswith(".py"):
        path = path_of(uri)
        if path is None:
            return None
        line = params.position.line + 1
        count = sum(len(document.from_source(str(path), line)) for document in _all(server))
        text = of_python_line(path, line, server.beside(uri), count)
        return lsp.Hover(_markdown(text)) if text else None
    document = server.document(uri)
    if document is None:
        return None
    found = hover(document, *server.column(document, params.position), server.beside(uri))
    return None if found is None else lsp.Hover(_markdown(found[0]), server.range(document, found[1]))


@_safe()
def _definition(server: Server, params: lsp.DefinitionParams) -> lsp.Location | None:
    uri = params.text_document.uri
    document = server.document(uri)
    if document is None:
        return None
    found = document.definition(*server.column(document, params.position))
    if isinstance(found, Place):
        return lsp.Location(uri, server.range(document, found))
    if found is None or (path := server.python_file(uri, found)) is None:
        return None
    line = max(found.line - 1, 0)
    target = from_fs_path(str(path))
    return None if target is None else lsp.Location(target, lsp.Range(lsp.Position(line, 0), lsp.Position(line, 0)))


@_safe([])
def _references(server: Server, params: lsp.ReferenceParams) -> list[lsp.Location]:
    uri = params.text_document.uri
    if uri.endswith(".py"):
        path = path_of(uri)
        line = params.position.line + 1
        return [
            lsp.Location(other, server.range(document, place))
            for other, document in ([] if path is None else server.naming(path))
            for place in document.from_source(str(path), line)
        ]
    document = server.document(uri)
    if document is None:
        return []
    include = params.context.include_declaration
    places = document.references(*server.column(document, params.position), with_definition=include)
    return [lsp.Location(uri, server.range(document, place)) for place in places]


@_safe([])
def _outline(server: Server, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
    document = server.document(params.text_document.uri)

    def symbol(entry: Entry) -> lsp.DocumentSymbol:
        assert document is not None
        return lsp.DocumentSymbol(
            name=entry.name,
            detail=entry.detail,
            kind=_SYMBOLS[entry.kind],
            range=server.range(document, entry.whole),
            selection_range=server.range(document, entry.place),
            children=[symbol(child) for child in entry.children],
        )

    return [] if document is None else [symbol(entry) for entry in outline(document)]


@_safe()
def _completion(server: Server, params: lsp.CompletionParams) -> lsp.CompletionList | None:
    document = server.document(params.text_document.uri)
    if document is None:
        return None
    line, column = server.column(document, params.position)
    found, all_of_them = complete(document, line, column)
    items = [
        lsp.CompletionItem(
            label=proposal.label,
            kind=_PROPOSALS[proposal.kind],
            detail=proposal.detail or None,
            filter_text=proposal.label,
            sort_text=f"{index:04}",
            text_edit=lsp.TextEdit(
                server.range(document, Place(line, column - proposal.replaces, line, column)), proposal.label
            ),
        )
        for index, proposal in enumerate(found)
    ]
    return lsp.CompletionList(is_incomplete=not all_of_them, items=items)


@_safe([])
def _code_actions(server: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    uri = params.text_document.uri
    document = server.document(uri)
    if document is None:
        return []
    found: list[lsp.CodeAction] = []
    first, last = params.range.start.line, params.range.end.line
    for problem in document.problems:
        if first <= problem.place.line <= last:
            line, comment = actions.expectation(document, problem)
            place = lsp.Range(lsp.Position(line, 0), lsp.Position(line, 0))
            found.append(
                lsp.CodeAction(
                    title=f"Expect {problem.diagnostic.severity} {problem.diagnostic.id} here",
                    kind=lsp.CodeActionKind.QuickFix,
                    diagnostics=[server.diagnostic(document, problem)],
                    edit=lsp.WorkspaceEdit(changes={uri: [lsp.TextEdit(place, comment)]}),
                )
            )
    wanted = params.context.only
    if wanted and not any(kind in ("", lsp.CodeActionKind.Source, "source.etir") for kind in wanted):
        return found
    runs = [("Run passes here...", None)] if server.client_shows else []
    runs += [(f"Run {text} here", text) for text in actions.suggested(document, first)]
    for title, text in runs:
        given = [uri, first] if text is None else [uri, first, text]
        found.append(_command_action(title, RUN_PASSES, given))
    found.append(_command_action("Explain what becomes of this", EXPLAIN, [uri, first]))
    return found


def _command_action(title: str, command: str, arguments: list[Any]) -> lsp.CodeAction:
    return lsp.CodeAction(title, kind="source.etir", command=lsp.Command(title, command, arguments=arguments))


async def _run_passes(server: Server, *arguments: Any) -> dict[str, Any]:
    def work() -> str:
        document, line, path = _place(server, arguments)
        text = arguments[2] if len(arguments) > 2 else None
        if not isinstance(text, str) or not text.strip():
            raise E1432.error(f"{RUN_PASSES} takes a file, a line (from 0) and passes")
        return actions.run_passes(document, line, text, server.new_context, path)

    name = str(arguments[2]) if len(arguments) > 2 else ""
    safe = "".join(c if c.isalnum() or c in "-=" else "-" for c in name)[:40]
    return await server.command_result(work, f"{_stem(arguments)}.{safe}.mlir")


async def _explain(server: Server, *arguments: Any) -> dict[str, Any]:
    def work() -> str:
        document, line, path = _place(server, arguments)
        beside = server.beside(str(arguments[0]))
        return actions.explain_line(document, line, server.new_context, path, beside)

    return await server.command_result(work, f"{_stem(arguments)}.explained.txt")


async def _passes(server: Server, *_: Any) -> list[dict[str, str]]:
    return await asyncio.get_running_loop().run_in_executor(server.worker, actions.passes)


def _place(server: Server, arguments: Sequence[Any]) -> tuple[Document, int, Path | None]:
    """The file and the line that a command is about, as they are now. Raises error E1432."""
    uri, line = (*arguments[:2], None, None)[:2]
    text = server.texts.get(uri) if isinstance(uri, str) else None
    if text is None or str(uri).endswith(".py"):
        raise E1432.error(f"'{uri}' is no open file with a program")
    if not isinstance(line, int) or line < 0:
        raise E1432.error(f"{line!r} is no line")
    return Document(text, server.new_context), line, path_of(str(uri))


def _stem(arguments: Sequence[Any]) -> str:
    path = path_of(str(arguments[0])) if arguments else None
    return "text" if path is None else path.stem


def _all(server: Server) -> list[Document]:
    return [document for uri in list(server.texts) if (document := server.document(uri)) is not None]


def _markdown(text: str) -> lsp.MarkupContent:
    return lsp.MarkupContent(lsp.MarkupKind.Markdown, text)


_FEATURES: dict[str, Callable[..., Any]] = {
    lsp.INITIALIZE: _initialize,
    lsp.INITIALIZED: _initialized,
    lsp.TEXT_DOCUMENT_DID_OPEN: _did_open,
    lsp.TEXT_DOCUMENT_DID_CHANGE: _did_change,
    lsp.TEXT_DOCUMENT_DID_CLOSE: _did_close,
    lsp.TEXT_DOCUMENT_HOVER: _hover,
    lsp.TEXT_DOCUMENT_DEFINITION: _definition,
    lsp.TEXT_DOCUMENT_REFERENCES: _references,
    lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL: _outline,
    lsp.TEXT_DOCUMENT_COMPLETION: _completion,
    lsp.TEXT_DOCUMENT_CODE_ACTION: _code_actions,
}
_OPTIONS: dict[str, Any] = {
    lsp.TEXT_DOCUMENT_COMPLETION: lsp.CompletionOptions(trigger_characters=[".", "%", "@", "^", '"', ":"]),
    lsp.TEXT_DOCUMENT_CODE_ACTION: lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix, "source.etir"]),
}
_COMMANDS: dict[str, Callable[..., Any]] = {RUN_PASSES: _run_passes, EXPLAIN: _explain, PASSES: _passes}
