"""Programs with the delegate ``native`` on etir's runtime against eager: trusted, refused, listed, damaged."""

from __future__ import annotations

import pickle
import random
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native.blob import read_blob, write_blob  # noqa: E402
from etir.backends.native.cc import compiler  # noqa: E402
from etir.diagnostics import EtirError  # noqa: E402
from etir.runtime import RuntimeFailure, api  # noqa: E402
from etir.tools import et_run, et_translate  # noqa: E402

from etir_testing.native.programs import CASES, blob_of, built, outputs  # noqa: E402


@pytest.mark.parametrize("name", CASES)
def test_eager_is_computed_by_code_and_by_the_fallback(name: str) -> None:
    module, inputs, program = built(name)
    wanted = outputs(module, inputs)
    assert program.delegation is not None and len(program.delegation.backends[0].partitions) == 1
    loads = {
        "trusted": etir.runtime.load(program),
        "two threads": etir.runtime.load(program, threads=2),
        "refused": etir.runtime.load(program, native="refuse"),
        "a file": etir.runtime.load(program.buffer),
    }
    results = {way: [list(loaded.forward(*inputs)) for _ in range(2)] for way, loaded in loads.items()}
    for way, runs in results.items():
        for run in runs:
            for got, want in zip(run, wanted, strict=True):
                assert (got - want).abs().max() <= 1e-5 * want.abs().max(), way
    for got, other in zip(results["trusted"][0], results["two threads"][1], strict=True):
        assert torch.equal(got, other)
    for got, other in zip(results["refused"][0], results["a file"][0], strict=True):
        assert torch.equal(got, other)
    # Code sums in another order than kernels: that it has run at all shows in the last digits.
    assert any(not torch.equal(a, b) for a, b in zip(results["trusted"][0], results["refused"][0], strict=True))


def test_a_file_whose_code_nobody_spoke_of_says_how_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once in a process, with the file, and not for a program that has no code for this processor."""
    _, inputs, program = built("rows")
    path = tmp_path / "model.pte"
    program.save(path)
    np.savez(tmp_path / "x.npz", **{f"arr_{i}": x.numpy() for i, x in enumerate(inputs)})
    monkeypatch.setattr(api, "_warned", threading.Event())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for native in ("refuse", "trusted", ["00" * 32]):
            etir.runtime.load(path, native=native).forward(*inputs)
        etir.runtime.load(program).forward(*inputs)
        etir.runtime.load(built("rows", "{cpus=aarch64}")[2].buffer).forward(*inputs)
    with pytest.warns(etir.runtime.NativeWarning, match="E1216") as found:
        results = [etir.runtime.load(given).forward(*inputs) for given in (path, path, program.buffer)]
    assert len(found) == 1 and str(path) in str(found[0].message) and 'native="trusted"' in str(found[0].message)
    copied = pickle.loads(pickle.dumps(found[0].message))
    for again in (copied, etir.runtime.NativeWarning(*found[0].message.args)):
        assert (str(again), type(again)) == (str(found[0].message), etir.runtime.NativeWarning)
    assert copied.diagnostic == found[0].message.diagnostic
    refused = etir.runtime.load(path, native="refuse").forward(*inputs)
    assert all(torch.equal(a, b) for result in results for a, b in zip(result, refused, strict=True))
    monkeypatch.setattr(api, "_warned", threading.Event())
    for options, is_said in ([], True), (["--native"], False):
        assert et_run.main([str(path), "--inputs", str(tmp_path / "x.npz"), *options]) == 0
        said = capsys.readouterr().err
        assert ("warning[E1216]" in said and "--native" in said) == is_said


def test_images_that_are_listed_run() -> None:
    _, inputs, program = built("rows")
    digests = [variant.digest.hex() for variant in read_blob(blob_of(program)).variants]
    trusted, refused = (etir.runtime.load(program, native=way).forward(*inputs)[0] for way in ("trusted", "refuse"))
    listed = etir.runtime.load(program, native=digests).forward(*inputs)[0]
    assert torch.equal(listed, trusted) and not torch.equal(listed, refused)
    other = etir.runtime.load(program, native=["00" * 32]).forward(*inputs)[0]
    assert torch.equal(other, refused)
    for wrong in ("yes", ["12"], ["zz" * 32], 5, [5]):
        with pytest.raises(RuntimeFailure, match="E1213"):
            etir.runtime.load(program, native=wrong)


def test_et_run_runs_code_when_asked(tmp_path: Path) -> None:
    _, inputs, program = built("rows")
    program.save(tmp_path / "model.pte")
    np.savez(tmp_path / "x.npz", **{f"arr_{i}": x.numpy() for i, x in enumerate(inputs)})
    for options, policy in (([], "refuse"), (["--native"], "trusted")):
        arguments = [str(tmp_path / "model.pte"), "--inputs", str(tmp_path / "x.npz")]
        assert et_run.main([*arguments, *options, "--outputs", str(tmp_path / "y.npz")]) == 0
        wanted = etir.runtime.load(program, native=policy).forward(*inputs)
        with np.load(tmp_path / "y.npz") as found:
            for name, want in zip(found.files, wanted, strict=True):
                np.testing.assert_array_equal(found[name], want.numpy())


@pytest.mark.parametrize("name", CASES)
def test_files_are_disassembled_and_interpreted(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the weights in the order of the module, from those that code reads."""
    module, inputs, program = built(name)
    path = tmp_path / "model.pte"
    program.save(path)
    assert et_translate.main([str(path), "--disassemble"]) == 0
    text = capsys.readouterr().out
    for variant in read_blob(blob_of(program)).variants:
        assert variant.digest.hex() in text
    np.savez(tmp_path / "x.npz", **{f"arr_{i}": x.numpy() for i, x in enumerate(inputs)})
    arguments = [str(path), "--inputs", str(tmp_path / "x.npz"), "--interpret"]
    assert et_run.main([*arguments, "--outputs", str(tmp_path / "y.npz")]) == 0
    with np.load(tmp_path / "y.npz") as found:
        for key, want in zip(found.files, outputs(module, inputs), strict=True):
            np.testing.assert_allclose(found[key], want.numpy(), rtol=1e-4, atol=1e-5)


def test_a_changed_image_is_not_the_listed_one() -> None:
    """Its digest in the file still says that it is."""
    _, inputs, program = built("rows")
    blob = blob_of(program)
    digests = [variant.digest.hex() for variant in read_blob(blob).variants]
    data = bytearray(program.buffer)
    start = data.index(blob[:64])
    for variant in read_blob(blob).variants:
        at = blob.index(variant.image.code) + variant.image.entry
        data[start + at] ^= 0xFF
    changed = etir.runtime.load(bytes(data), native=digests).forward(*inputs)[0]
    assert torch.equal(changed, etir.runtime.load(program, native="refuse").forward(*inputs)[0])


def test_blobs_are_written_as_they_are_read() -> None:
    blob = blob_of(built("rows")[2])
    assert write_blob(read_blob(blob)) == blob


def test_damaged_blobs_are_refused_or_run() -> None:
    """Numbers of the tables replaced by hostile ones: an error with an id, or a result; code is not run."""
    _, inputs, program = built("images")
    blob = blob_of(program)
    start = program.buffer.index(blob[:64])
    found = read_blob(blob)
    size = 64 + 36 * len(found.shapes) + 16 * len(found.weights) + 40 * len(found.constants) + 56 * len(found.variants)
    chance = random.Random(0)
    refused = 0
    for _ in range(300):
        data = bytearray(program.buffer)
        for _ in range(chance.randint(1, 2)):
            at = start + 4 * chance.randrange(size // 4)
            value = chance.choice([0, 1, 2, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, chance.randrange(1 << 32), 65536])
            data[at : at + 4] = value.to_bytes(4, "little")
        try:
            etir.runtime.load(bytes(data), native="refuse").forward(*inputs)
        except RuntimeFailure:
            refused += 1
    assert refused > 100


def test_errors_say_what_to_do() -> None:
    with pytest.raises(EtirError, match="E1161"):
        compiler("no-such-compiler")
    module = nn.Linear(4, 4).eval()
    exported = torch.export.export(module, (torch.randn(2, 4),))
    with pytest.raises(EtirError, match="E1160"):
        etir.compile(exported, target="etir", delegates=["native{cpus=z80}"])
    with pytest.raises(EtirError, match="E1103"):
        read_blob(b"ETNC" + (99).to_bytes(4, "little") + bytes(64))
    for data in (b"", b"ETRD" + bytes(80), b"ETNC\1\0\0\0" + b"\xff" * 80):
        with pytest.raises(EtirError, match="E1108"):
            read_blob(data)
