"""The benchmark of native code: what it says of figures, how it survives its peers, and one run of a very small model.

No test judges a time.
"""

from __future__ import annotations

import ctypes
import json
import math
from dataclasses import asdict
from pathlib import Path

import machine_limit
import native
import native_models
import numpy as np
import pytest
from document import put
from native_figures import Figures, PeerFigures, error_table, mean, of_json, remarks, time_table, time_text
from peers import OTHERS, PEERS

from etir.backends.native.cc import compiler
from etir.backends.native.cpu import cpu
from etir.diagnostics import EtirError

from etir_testing.native.images import here

TARGET = cpu(here()[-1])

ABOUT = {"processor": "some processor", "system": "Linux x86_64", "compiler": "cc 1.0", "torch": "2.13.0"}


def row(name: str = "net", **times: float) -> Figures:
    """Figures with the given times in seconds, and a gap of OpenVINO's."""
    peers = {peer: PeerFigures(seconds=s, wall=s, error=1e-7, prepare_seconds=2.0) for peer, s in times.items()}
    peers["openvino"] = PeerFigures(gap="RuntimeError: cannot")
    limits = {"multiply-adds": 200e9, "memory": 40e9, "cache": 100e9}
    return Figures(name, flops=1e9, moved=1e7, eager_error=1e-7, limits=limits, peers=peers)


def test_the_best_peer_is_the_fastest_of_the_others() -> None:
    figures = row(native=0.008, kernels=0.001, onnxruntime=0.010, eager=0.020)
    assert figures.best == "onnxruntime"
    assert figures.ratio("native") == pytest.approx(0.8)
    assert figures.ratio("eager") == pytest.approx(2.0)
    assert figures.ratio("openvino") is None
    assert figures.rate == pytest.approx(125e9)
    assert figures.share == pytest.approx(0.625)
    assert figures.intensity == pytest.approx(100.0)
    assert not {"native", "kernels"} & set(OTHERS)


def test_a_gap_is_no_time_even_when_it_has_one() -> None:
    figures = row(native=0.008, eager=0.010)
    figures.peers["xnnpack"] = PeerFigures(gap="computes something else", seconds=0.001)
    assert figures.best == "eager"


def test_the_mean_is_geometric() -> None:
    rows = [row(native=0.5, eager=1.0), row(native=2.0, eager=1.0), row(eager=1.0)]
    assert mean(rows) == pytest.approx(1.0)
    assert mean([row(eager=1.0)]) is None


def test_times_have_three_digits() -> None:
    assert [time_text(s) for s in (1e-5, 1.234e-3, 0.01234, 0.1234, 1.2345, None)] == [
        "0.010", "1.23", "12.3", "123", "1,234", "–",
    ]  # fmt: skip


def test_tables_have_a_column_for_each_peer_and_name_the_best() -> None:
    text = time_table([row(native=0.008, onnxruntime=0.010, eager=0.020), row("other")])
    lines = text.splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert all(peer.title in lines[0] for peer in PEERS.values())
    assert lines[2] == "| net | 1 | 8.00 | – | **10.0** | – | – | 20.0 | – | 0.80 | 125.0 | 62% |"
    assert lines[3] == "| other | 1 | – | – | – | – | – | – | – | – | – | – |"
    assert lines[4].split("|")[3].strip() == "0.80"


def test_compilation_is_said_beside_that_for_kernels() -> None:
    figures = row(native=0.008, kernels=0.02, eager=0.02)
    figures.peers["native"].prepare_seconds = 5.5
    line = error_table([figures]).splitlines()[2]
    assert line.endswith("| 1e-07 | 5.5 | 3.5 |")


def test_remarks_name_gaps_threads_and_differences() -> None:
    figures = row(native=0.008, onnxruntime=0.010)
    figures.peers["native"].error = 3e-5
    figures.peers["onnxruntime"].wall = 0.005
    said = remarks([figures, Figures("broken", failure="does not build")])
    assert said == [
        "net, ONNX Runtime: more than one thread (2.0)",
        "net, OpenVINO: RuntimeError: cannot",
        "net: native differs from eager by 3.0e-05",
        "broken: does not build",
    ]


def test_eager_s_own_distance_from_float64_is_allowed() -> None:
    figures = row(native=0.008)
    figures.peers["native"].error, figures.eager_error = 3e-5, 2e-5
    assert not any("differs" in said for said in remarks([figures]))


def test_json_gives_the_same_figures() -> None:
    figures = row(native=0.008, eager=0.010)
    assert of_json(json.loads(json.dumps(asdict(figures)))) == figures


def test_the_page_has_pictures_where_there_are_figures() -> None:
    rows = [row(native=0.008, eager=0.010)]
    drawn = native.pictures(rows)
    assert list(drawn) == [native.RATIO, native.ROOFLINE]
    assert "0.80 of torch eager" in drawn[native.RATIO]
    text = native.page(rows, ABOUT)
    assert all(file in text for file in drawn)
    assert "some processor" in text
    assert "cc 1.0" in text
    assert "* net, OpenVINO: RuntimeError: cannot" in text
    assert native.ROOFLINE not in native.page([Figures("broken", failure="no")], ABOUT)


def test_a_page_keeps_what_is_around_the_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- begin: benchmarks/x.py -->\nold\n<!-- end: benchmarks/x.py -->\nb\n", encoding="utf-8")
    put(page, "x.py", "new")
    assert page.read_text() == "a\n<!-- begin: benchmarks/x.py -->\nnew\n<!-- end: benchmarks/x.py -->\nb\n"
    with pytest.raises(ValueError, match="no lines"):
        put(page, "y.py", "new")


def test_models_have_names_and_groups() -> None:
    assert native_models.names_of("resnet50_224,small,resnet50_224")[0] == "resnet50_224"
    assert native_models.names_of("default") == native_models.names_of("large,small")
    assert set(native_models.names_of("default")) < set(native_models.names_of("all"))
    with pytest.raises(ValueError, match="no model 'nothing'"):
        native_models.names_of("nothing")
    assert not set(native_models.LARGE) & set(native_models.ENTRIES)


def test_a_peer_that_ends_the_process_is_a_gap_and_the_others_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    def once(name: str, peers: list[str], seconds: float, patience: float) -> Figures:
        started.append(list(peers))
        if "openvino" in peers:
            raise native.Ended("openvino", "ended the process by SIGSEGV")
        return Figures(name, peers={peer: PeerFigures(seconds=1.0) for peer in peers})

    monkeypatch.setattr(native, "_once", once)
    figures = native.figures_of("net", ["native", "openvino", "eager"], 1.0)
    assert started == [["native", "openvino", "eager"], ["native", "eager"]]
    assert list(figures.peers) == ["native", "openvino", "eager"]
    assert figures.peers["openvino"].gap == "ended the process by SIGSEGV"


def test_a_model_that_does_not_build_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def once(*_: object) -> Figures:
        raise native.Ended(None, "ended the process with exit code 1")

    monkeypatch.setattr(native, "_once", once)
    assert native.figures_of("net", ["native"], 1.0).failure == "ended the process with exit code 1"


def test_loops_of_every_compiler_load() -> None:
    """By the system's loader, and each chain of 0.5 x + 1 goes to 2."""
    loaded = 0
    for kind in ("zig", "clang", "gcc"):
        try:
            using = compiler(kind)
        except EtirError:
            continue
        library = machine_limit.loaded(machine_limit.text_of(TARGET), TARGET, using)
        given = machine_limit.aligned((machine_limit.CHAINS + 2) * TARGET.vector, 0.5)
        given[TARGET.vector : 2 * TARGET.vector] = 1.0
        out = machine_limit.aligned(TARGET.vector, 0.0)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (given, out)]
        library.limit_fma(ctypes.c_long(100), *pointers)
        np.testing.assert_allclose(out, 2.0 * machine_limit.CHAINS, rtol=1e-6)
        loaded += 1
    assert loaded


@pytest.mark.slow
@pytest.mark.nightly
def test_one_run_of_a_very_small_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All peers that are installed, but for those that take half a minute to prepare anything."""
    peers = [name for name in PEERS if name not in ("compiled", "xnnpack")]
    page, figures = tmp_path / "page.md", tmp_path / "figures.json"
    page.write_text("<!-- begin: benchmarks/native.py -->\n<!-- end: benchmarks/native.py -->\n", encoding="utf-8")
    arguments = ["--models", "llama2_prefill", "--peers", ",".join(peers), "--seconds", "0.05"]
    arguments += ["--json", str(figures), "--document", str(page), "--svg", str(tmp_path / "pictures")]
    monkeypatch.setattr("sys.argv", ["native.py", *arguments])
    assert native.main() == 0
    (found,) = (of_json(model) for model in json.loads(figures.read_text(encoding="utf-8"))["models"])
    assert found.failure is None
    assert list(found.peers) == peers
    for name, peer in found.peers.items():
        missing = PEERS[name].missing()
        if missing:
            assert peer.gap == f"{', '.join(missing)} not installed"
            continue
        assert peer.gap is None, peer.gap
        assert peer.error is not None
        assert peer.error < 1e-4
        assert peer.seconds is not None
        assert 0 < peer.seconds < math.inf
    # Seven tokens through two layers of 64 x 64 (four times) and 64 x 172 (three times), and a head of 64 x 200.
    weights = 2 * (4 * 64 * 64 + 3 * 64 * 172) + 64 * 200
    assert 1.0 < found.flops / (2 * 7 * weights) < 1.1
    assert found.moved > 4 * weights
    assert min(found.limits.values()) > 0
    assert "| llama2_prefill |" in page.read_text(encoding="utf-8")
    assert (tmp_path / "pictures" / native.RATIO).is_file()
