"""Machine code of the delegate ``native`` beside the engines that users would pick, one thread, in turns.

    python benchmarks/native.py                                      the models of users' sizes and the small zoo
    python benchmarks/native.py --models resnet50_224,vit_b_224      some; `large`, `small` and `all` are groups
    python benchmarks/native.py --models large --peers native,onnxruntime --seconds 1
    python benchmarks/native.py --json build/native.json --document docs/guide/performance.md   the documentation

Each model has a process of its own, in which all peers are loaded and then called in turns: short bursts of each, for
about ``--seconds`` each, of which the least time of a call counts. Times are processor time of the whole process, all
of its threads included. Loops of multiply-adds and of reads are measured among them, so that figures can be said as
parts of what the core did in that run.

Peers are of fixed versions (``pip install 'etir[bench]'``), use what instructions they find, keep to float32, and get
the model as torch exports it for the sizes of its inputs. Where an engine has two ways in, the faster one counts. Every
result is compared with eager: *differs* is the largest difference over the largest magnitude. A peer that cannot run a
model, ends the process or computes something else is a gap with its reason. Operations are counted by torch (two for a
multiply-add of products and convolutions); bytes of the roofline are inputs, outputs and weights once.

``--figures`` draws what ``--json`` wrote, without measuring. Pictures are ``docs/assets/native_ratio.svg`` and
``docs/assets/native_roofline.svg``, or go to ``--svg FOLDER``.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import multiprocessing
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

from charts import Bar, Point, Roof, bars, roofline
from document import put
from native_figures import Figures, PeerFigures, error_table, limits_text, of_json, remarks, time_table
from peers import OTHERS, PEERS

ASSETS = Path(__file__).resolve().parents[1] / "docs" / "assets"
RATIO, ROOFLINE = "native_ratio.svg", "native_roofline.svg"
_ALTERNATIVES = {
    RATIO: "Time of native code over the fastest peer's, for each model",
    ROOFLINE: "Roofline: operations in a second over operations for a byte",
}
NAMED = 16
"""Programs that the roofline names, those of most operations; there is no room for more."""
PATIENCE = 1800.0
"""Seconds that one peer may take for one step."""

LIMITING = (
    "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "ETIR_ISA",
)  # fmt: skip
"""Variables that keep an engine from instructions of the machine: workers do not have them."""
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def _work(
    pipe: Connection, current: Any, log: str, name: str, peers: Sequence[str], seconds: float
) -> None:  # in a process of its own
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    faulthandler.enable()
    from native_worker import measure

    def starting(peer: str) -> None:
        current.value = peers.index(peer) if peer in peers else -1
        pipe.send(None)

    pipe.send(measure(name, peers, seconds, starting))


@contextmanager
def _environment() -> Iterator[None]:
    """The variables of a worker: one thread, no limits, and nothing kept from an earlier compilation."""
    before = dict(os.environ)
    for variable in LIMITING:
        os.environ.pop(variable, None)
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"), ETIR_CACHE="")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@dataclass
class Ended(Exception):
    """A worker ended without figures while ``peer`` was at work (None: nobody was)."""

    peer: str | None
    why: str


def _once(name: str, peers: Sequence[str], seconds: float, patience: float) -> Figures:
    """The figures of one worker. Raises Ended."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    current = spawn.Value("i", -1)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        worker = spawn.Process(target=_work, args=(theirs, current, str(log), name, list(peers), seconds))
        with _environment():
            worker.start()
        theirs.close()
        try:
            while ours.poll(patience):
                message = ours.recv()
                if message is not None:
                    return message
            why = f"took longer than {patience:.0f} s"
        except EOFError:
            worker.join()
            why = _ending(worker.exitcode, log)
        finally:
            worker.kill()
            worker.join()
    at = current.value
    raise Ended(peers[at] if at >= 0 else None, why)


def _ending(code: int | None, log: Path) -> str:
    """How a process ended: by a signal, or with an exit code and the last line that it printed."""
    if code is not None and code < 0:
        return f"ended the process by {signal.Signals(-code).name}"
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
    return f"ended the process with exit code {code}: {lines[-1] if lines else ''}"[:160]


def figures_of(name: str, peers: Sequence[str], seconds: float, patience: float = PATIENCE) -> Figures:
    """The figures of one model. A peer that ends the process, or takes too long, is a gap; the others start again."""
    gaps: dict[str, str] = {}
    while True:
        left = [peer for peer in peers if peer not in gaps]
        try:
            figures = _once(name, left, seconds, patience)
        except Ended as ended:
            if ended.peer is None:
                return Figures(name, failure=ended.why)
            gaps[ended.peer] = ended.why
            continue
        figures.peers = {p: figures.peers.get(p) or PeerFigures(gap=gaps.get(p)) for p in peers}
        return figures


def pictures(rows: Sequence[Figures]) -> dict[str, str]:
    """The SVG files, by name."""
    titles = {name: PEERS[name].title for name in OTHERS}
    drawn: list[Bar] = []
    for row in rows:
        note = "" if row.best is None else f"of {titles[row.best]}"
        if row.ratio("native") is None:
            note = "native is a gap" if row.best is not None else "no figures"
        marks = {titles[name]: ratio for name in OTHERS if (ratio := row.ratio(name)) is not None}
        drawn.append(Bar(row.name, row.ratio("native"), note, marks))
    found = {RATIO: bars(drawn, "Time of native code over the fastest peer's (less is better)", list(titles.values()))}
    limits = [row.limits for row in rows if row.limits]
    largest = sorted(rows, key=lambda row: -row.flops)[:NAMED]
    points = [
        Point(row.name, row.intensity, row.rate, row in largest)
        for row in rows
        if row.rate is not None and row.intensity is not None
    ]
    if limits and points:
        most = {key: max(limit[key] for limit in limits) for key in ("multiply-adds", "memory", "cache")}
        roof = Roof(most["multiply-adds"], {"cache": most["cache"], "memory": most["memory"]})
        found[ROOFLINE] = roofline(points, roof, "Native code under what the core can do (one thread)")
    return found


def setting() -> dict[str, str]:
    """The machine and the versions."""
    from machine_limit import processor

    from etir.backends.native.cc import compiler

    found = {"processor": processor(), "system": f"{platform.system()} {platform.machine()}"}
    found["compiler"] = compiler().version
    for peer in PEERS.values():
        found |= peer.versions()
    return found


def page(rows: Sequence[Figures], about: dict[str, str]) -> str:
    """The part of the documentation's page."""
    versions = ", ".join(f"{name} {value}" for name, value in about.items() if name not in ("processor", "system"))
    parts = [
        f"{about['processor']}; {about['system']}; one thread; {limits_text(rows)}. Versions: {versions}.",
        *(f"![{_ALTERNATIVES[file]}](../assets/{file})" for file in pictures(rows)),
        time_table(rows),
        "How far results are from eager's (largest difference over largest magnitude), and processor seconds of "
        "compilation:",
        error_table(rows),
    ]
    said = remarks(rows)
    if said:
        parts += ["Gaps and remarks:", "\n".join(f"* {remark}" for remark in said)]
    return "\n\n".join(parts)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="default", help="names and groups, separated by commas")
    parser.add_argument("--peers", default=",".join(PEERS), help="names of peers, separated by commas")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each peer and model")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds that a peer may take for one step")
    parser.add_argument("--json", type=Path, help="write the figures to this file, after every model")
    parser.add_argument("--figures", type=Path, help="figures that --json wrote, instead of measuring")
    parser.add_argument("--document", type=Path, help="put tables into this page and draw its pictures")
    parser.add_argument("--svg", type=Path, help="draw the pictures into this folder")
    arguments = parser.parse_args()
    peers = arguments.peers.split(",")
    unknown = [name for name in peers if name not in PEERS]
    if unknown:
        parser.error(f"no peer '{unknown[0]}'; there are {', '.join(PEERS)}")
    if arguments.figures is not None:
        read = json.loads(arguments.figures.read_text(encoding="utf-8"))
        about, rows = read["setting"], [of_json(row) for row in read["models"]]
    else:
        from native_models import names_of

        try:
            names = names_of(arguments.models)
        except ValueError as error:
            parser.error(str(error))
        about, rows = setting(), []
        _measure(names, peers, arguments, about, rows)
    print(page(rows, about))
    folder = arguments.svg or (ASSETS if arguments.document is not None else None)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in pictures(rows).items():
            (folder / file).write_text(text, encoding="utf-8")
    if arguments.document is not None:
        put(arguments.document, "native.py", page(rows, about))
    return 0


def _measure(
    names: Sequence[str],
    peers: Sequence[str],
    arguments: argparse.Namespace,
    about: dict[str, str],
    rows: list[Figures],
) -> None:
    from native_models import KNOWN

    for name in names:
        missing = KNOWN[name].missing()
        if missing:
            rows.append(Figures(name, failure=f"{', '.join(missing)} not installed"))
        else:
            rows.append(figures_of(name, peers, arguments.seconds, arguments.patience))
        row = rows[-1]
        ratio = row.ratio("native")
        shown = "no ratio" if ratio is None else f"{ratio:.2f} of {row.best}"
        print(f"{name}: {shown}", *remarks([row]), sep="\n  ", file=sys.stderr, flush=True)
        if arguments.json is not None:
            data = {"setting": about, "models": [asdict(found) for found in rows]}
            arguments.json.write_text(json.dumps(data, indent=1), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
