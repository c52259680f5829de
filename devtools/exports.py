"""A program in the forms of other viewers: events for Perfetto, graphs for Model Explorer.

Perfetto, Chromium and speedscope open Chrome's trace events: the runs of a profile, one line for each, and the memory
plan, a line for each place in memory with the buffers that take turns there, and a counter of the bytes that are alive.
Model Explorer opens JSON with a graph for each level, whose nodes are in the module they come from, and takes times as
values of nodes. Both are written without the packages of these tools.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from etir.devtools.inspector import Inspector
from etir.devtools.profile.sums import percentile
from etir.devtools.trace.read import Table, Trace, checked

LONGEST = 500
"""Characters of an operation's text in an attribute."""


def perfetto(trace: Trace, inspectors: Sequence[Inspector] = ()) -> str:
    """Chrome's trace events of profiles and of the memory plan of each method, as JSON.

    The plan goes along the instructions of the first run in the method's profile, or takes a microsecond for each where
    there is none. Raises error E1403 for a damaged trace.
    """
    events: list[dict[str, Any]] = []
    clocks: dict[str, dict[int, tuple[float, float]]] = {}
    process = 0
    for inspector in inspectors:
        method = inspector.program.method_of(inspector.profile)
        made: list[dict[str, Any]] = json.loads(inspector.chrome_trace())["traceEvents"]
        events.append(_named(process, f"run of {method}"))
        events += [{**event, "pid": process} for event in made]
        clocks.setdefault(method, _clock(made))
        process += 1
    for method, plan in trace.memory.items():
        events.append(_named(process, f"memory of {method}"))
        events += _memory_events(trace, plan, clocks.get(method, {}), process)
        process += 1
    return (
        json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, separators=(",", ":"), ensure_ascii=False) + "\n"
    )


def _named(process: int, name: str) -> dict[str, Any]:
    return {"name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": {"name": name}}


def _clock(events: Sequence[dict[str, Any]]) -> dict[int, tuple[float, float]]:
    """When each instruction began first and ended last, in the first run."""
    found: dict[int, tuple[float, float]] = {}
    first = min((event["tid"] for event in events), default=0)
    for event in events:
        number = event["args"]["instruction"]
        if event["tid"] == first and number >= 0:
            begin, end = found.get(number, (event["ts"], 0.0))
            found[number] = (min(begin, event["ts"]), max(end, event["ts"] + event["dur"]))
    return found


def _memory_events(
    trace: Trace, plan: dict[str, Any], clock: dict[int, tuple[float, float]], process: int
) -> list[dict[str, Any]]:
    times = _times(clock, plan["instructions"])
    events: list[dict[str, Any]] = []
    changes: dict[int, int] = {}
    places: dict[tuple[int, int], int] = {}
    buffers = [b for b in plan["buffers"] if b["pool"] is not None and b["offset"] is not None]
    for buffer in sorted(buffers, key=lambda b: (b["pool"], b["offset"])):
        place = (buffer["pool"], buffer["offset"])
        if place not in places:
            places[place] = len(places) + 1
            name = f"memory {place[0]} at {place[1]:,}"
            events.append({**_named(process, name), "name": "thread_name", "tid": places[place]})
    for buffer in buffers:
        found = [o for number in buffer["origins"] if (o := trace.origin(number)) is not None]
        for first, last in buffer["live"]:
            begin, end = times[min(first, len(times) - 2)], times[min(last + 1, len(times) - 1)]
            events.append(
                {
                    "name": buffer["name"],
                    "cat": "state" if buffer["state"] else "buffer",
                    "ph": "X",
                    "ts": round(begin, 3),
                    "dur": round(max(end - begin, 0.0), 3),
                    "pid": process,
                    "tid": places[buffer["pool"], buffer["offset"]],
                    "args": {
                        "bytes": buffer["bytes"],
                        "type": buffer["type"],
                        "instructions": [first, last],
                        "lines": list(dict.fromkeys(o.where for o in found if o.where)),
                    },
                }
            )
            changes[first] = changes.get(first, 0) + buffer["bytes"]
            changes[last + 1] = changes.get(last + 1, 0) - buffer["bytes"]
    alive = 0
    for at in sorted(changes):
        alive += changes[at]
        when = round(times[min(at, len(times) - 1)], 3)
        events.append({"name": "bytes alive", "ph": "C", "ts": when, "pid": process, "args": {"bytes": alive}})
    return events


def _times(clock: dict[int, tuple[float, float]], count: int) -> list[float]:
    """When each instruction begins, and when the last one ends; one that did not run begins with the next."""
    if not clock:
        return [float(at) for at in range(max(count, 1) + 1)]
    times = [max(end for _, end in clock.values())]
    for number in reversed(range(max(count, 1))):
        times.append(min(clock.get(number, (times[-1], 0.0))[0], times[-1]))
    return times[::-1]


# --- Model Explorer --------------------------------------------------------------------------------------------------


def model_explorer(trace: Trace, inspectors: Sequence[Inspector] = (), title: str = "") -> str:
    """A graph for each level and for the inside of each delegate, as JSON that Model Explorer opens.

    Raises error E1403 for a damaged trace.
    """
    seconds = _seconds(inspectors)
    graphs: list[dict[str, Any]] = []
    for level in trace.levels:
        with checked(trace.name, f"levels/{level}.json"):
            graphs.append(_graph(trace, level, seconds))
    with checked(trace.name, "delegates.json"):
        graphs += [_delegate_graph(trace, symbol, table) for symbol, table in trace.delegates.items()]
    whole = {"label": title or trace.name, "graphs": graphs}
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False) + "\n"


def _seconds(inspectors: Sequence[Inspector]) -> dict[int, float]:
    """The median time of each origin."""
    found: dict[int, float] = {}
    for inspector in inspectors:
        for group in inspector.by("origin"):
            if len(group.origins) == 1:
                number = group.origins[0]
                found[number] = found.get(number, 0.0) + percentile(list(group.seconds), 50)
    return found


def _graph(trace: Trace, level: str, seconds: dict[int, float]) -> dict[str, Any]:
    table, lines = trace.columns(level), trace.text(level).split("\n")
    nodes: list[dict[str, Any]] = []
    for row in range(len(table)):
        origins = table.several("origins", row)
        given = [
            {"sourceNodeId": str(source), "sourceNodeOutputId": "0", "targetNodeInputId": str(at)}
            for at, source in enumerate(table.several("operands", row))
            if source >= 0
        ]
        line = table["line"][row]
        attrs = {"text": lines[line - 1].strip()[:LONGEST] if 0 < line <= len(lines) else ""}
        place = table["source"][row]
        if place:
            attrs["source"] = f"{place[0]}:{place[1]}"
        attrs |= {"origins": ", ".join(map(str, origins)), "bytes": str(table["bytes"][row])}
        if table["partition"][row] is not None:
            attrs["partition"] = str(table["partition"][row])
        known = [seconds[number] for number in origins if number in seconds]
        if known:
            attrs["ms"] = f"{1e3 * sum(known):.6f}"
        nodes.append(_node(row, table["name"][row], table["path"][row], attrs, given))
    return {"id": level, "nodes": nodes}


def _delegate_graph(trace: Trace, symbol: str, table: Table) -> dict[str, Any]:
    """The operations that a delegate reports, one after the other: what is between them is in the text of the level."""
    nodes: list[dict[str, Any]] = []
    for row in range(len(table)):
        place = table["source"][row]
        attrs = {"source": f"{place[0]}:{place[1]}"} if place else {}
        attrs["origins"] = ", ".join(map(str, table.several("origins", row)))
        given = [] if not row else [{"sourceNodeId": str(row - 1), "sourceNodeOutputId": "0", "targetNodeInputId": "0"}]
        nodes.append(_node(row, table["name"][row], table["path"][row], attrs, given))
    return {"id": f"{symbol} ({table.columns['backend']})", "nodes": nodes}


def _node(row: int, name: str, path: str, attrs: dict[str, str], incoming: Sequence[dict[str, str]]) -> dict[str, Any]:
    return {
        "id": str(row),
        "label": name,
        "namespace": path.replace(".", "/"),
        "attrs": [{"key": key, "value": value} for key, value in attrs.items()],
        "incomingEdges": list(incoming),
    }
