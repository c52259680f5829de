"""``et-llm serve``: a model as OpenAI's HTTP interface on this machine, with a page. Needs ``etir[serve]``."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

from etir.tools.common import OK, Console, ToolParser, usage_error

_DESCRIPTION = """\
Answer OpenAI's HTTP interface on this machine, with a page to try the model.

Programs call http://127.0.0.1:8080/v1 as they would call OpenAI; a browser opens http://127.0.0.1:8080/.
Ctrl-C ends it: answers that are being written end first.
"""


def parser() -> ToolParser:
    """The command line."""
    from etir.llm.sampling import Sampling
    from etir.tools.llm.arguments import add_drafting, add_model, add_sampling

    parser = ToolParser("et-llm serve", _DESCRIPTION)
    add_model(parser)
    parser.add_argument("--name", metavar="NAME", help="what requests call the model (default: its own name)")
    parser.add_argument("--threads", type=int, metavar="N", help="threads that compute (default: all processors)")
    where = parser.add_argument_group("address")
    where.add_argument("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
    where.add_argument("--port", type=int, default=8080, help="port (default: 8080; 0: a free one)")
    where.add_argument("--allow-remote", action="store_true", help="listen at an address that other machines reach")
    where.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="answer requests for this host, too; repeat it",
    )
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--sessions", type=int, default=4, metavar="N", help="answers at once, a cache each (default: 4)"
    )
    limits.add_argument("--queue", type=int, default=64, metavar="N", help="requests that may wait (default: 64)")
    limits.add_argument(
        "--time-limit", type=float, default=600, metavar="S", help="seconds of an answer (default: 600)"
    )
    limits.add_argument("--max-body", type=int, default=1024, metavar="KIB", help="of a request (default: 1024)")
    limits.add_argument("--max-messages", type=int, default=1000, metavar="N", help="of a request (default: 1000)")
    limits.add_argument(
        "--grace", type=float, default=5, metavar="S", help="seconds that answers get to end after Ctrl-C (default: 5)"
    )
    add_sampling(parser, Sampling(temperature=0.7, top_p=0.95), "what a request does not say", seed=False)
    add_drafting(parser)
    return parser


_LEAST = {
    "sessions": 1,
    "queue": 0,
    "time_limit": 0,
    "max_body": 1,
    "max_messages": 1,
    "grace": 0,
    "port": 0,
    "repetition_window": 0,
}


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Serve until a signal comes."""
    try:
        from etir.llm.serve.app import Api, HttpLimits
        from etir.llm.serve.fields import NUMBERS
        from etir.llm.serve.requests import Defaults
        from etir.llm.serve.server import Address, LlmServer, listen
    except ModuleNotFoundError as error:
        from etir.llm.errors import E1741

        if error.name is None or error.name.partition(".")[0] not in ("starlette", "uvicorn", "h11"):
            raise
        raise E1741.error(f"the Python package '{error.name}' is missing") from None
    from etir.llm.sampling import Sampling
    from etir.llm.serve.service import Limits, Service
    from etir.tools.llm.arguments import drafting_of, load_model, sampling_of

    for name, least in _LEAST.items():
        if not getattr(arguments, name) >= least:
            raise usage_error(f"--{name.replace('_', '-')} has to be {least} or more")
    if arguments.port > 65535:  # Or the system would take the rest of a division.
        raise usage_error("--port has to be 65535 or less")
    for name in (field.name for field in fields(Sampling) if field.name in NUMBERS and hasattr(arguments, field.name)):
        problem = NUMBERS[name].problem(getattr(arguments, name))
        if problem is not None:
            raise usage_error(f"--{name.replace('_', '-')} {problem}")
    # A port that is taken is said before a model of gigabytes is looked at.
    address = Address(arguments.host, arguments.port, arguments.allow_remote, tuple(arguments.allow_host))
    with listen(address) as bound:
        model = load_model(arguments, arguments.threads)
        drafting = drafting_of(arguments, model, arguments.threads)
        limits = Limits(arguments.sessions, arguments.queue, arguments.time_limit)
        service = Service(model, limits, model.session if drafting is None else drafting.session)
        name = arguments.name or model.chat.name or Path(arguments.model).stem
        defaults = Defaults(name, sampling_of(arguments), arguments.max_messages)
        created = int(Path(arguments.model).stat().st_mtime)
        api = Api(service, defaults, HttpLimits(body=arguments.max_body << 10), created)
        server = LlmServer(api, bound, address.accepted, arguments.grace)
        print(f"'{name}' at {server.url} (the interface: {server.url}v1); Ctrl-C ends it", flush=True)
        server.serve_until_stopped()
    return OK
