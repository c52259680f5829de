"""Numbers for a monitor or a page: one line each, in the text format of Prometheus."""

from __future__ import annotations

import os
from pathlib import Path

from etir.llm.serve.service import Service

HELP: dict[str, tuple[str, str]] = {
    "requests_total": ("counter", "requests that were put in line"),
    "requests_completed_total": ("counter", "requests that were answered to their end"),
    "requests_canceled_total": ("counter", "requests whose client was gone"),
    "requests_failed_total": ("counter", "requests that ended with an error of the model, the time or the server"),
    "requests_refused_total": ("counter", "requests that found no room in the line"),
    "requests_running": ("gauge", "requests that have a session"),
    "requests_waiting": ("gauge", "requests in line"),
    "sessions": ("gauge", "sessions with a cache in memory"),
    "sessions_limit": ("gauge", "most sessions"),
    "prompt_tokens_total": ("counter", "tokens of prompts"),
    "reused_tokens_total": ("counter", "tokens of prompts that a cache held already"),
    "generated_tokens_total": ("counter", "tokens of answers"),
    "tokens_per_second": ("gauge", "generated lately, of all requests together"),
    "busy_seconds_total": ("counter", "seconds that the model computed"),
    "context_tokens": ("gauge", "most tokens of a prompt and its answer"),
    "resident_bytes": ("gauge", "memory of the process"),
}
"""Name without the prefix ``etir_llm_`` to its kind and meaning; ``memory_bytes`` has a line for each part."""


def metrics_text(service: Service) -> str:
    """All of them."""
    counters = service.counters
    values: dict[str, float] = {
        "requests_total": counters.requests,
        "requests_completed_total": counters.completed,
        "requests_canceled_total": counters.canceled,
        "requests_failed_total": counters.failed,
        "requests_refused_total": counters.refused,
        "requests_running": service.running,
        "requests_waiting": service.waiting,
        "sessions": service.sessions,
        "sessions_limit": service.limits.sessions,
        "prompt_tokens_total": counters.prompt_tokens,
        "reused_tokens_total": counters.reused_tokens,
        "generated_tokens_total": counters.generated_tokens,
        "tokens_per_second": round(service.rate(), 3),
        "busy_seconds_total": round(counters.busy_seconds, 3),
        "context_tokens": service.model.context,
        "resident_bytes": resident_bytes(),
    }
    lines: list[str] = []
    for name, (kind, meaning) in HELP.items():
        lines += [f"# HELP etir_llm_{name} {meaning}", f"# TYPE etir_llm_{name} {kind}"]
        lines.append(f"etir_llm_{name} {values[name]}")
    lines += ["# HELP etir_llm_memory_bytes what the model says of its memory", "# TYPE etir_llm_memory_bytes gauge"]
    lines += [f'etir_llm_memory_bytes{{part="{part}"}} {size}' for part, size in service.model.memory().items()]
    return "\n".join([*lines, ""])


def resident_bytes() -> int:
    """Resident memory of this process in bytes, 0 where the system does not tell in ``/proc``."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
