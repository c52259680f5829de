"""``et-llm serve`` as a process, with a small Llama: it answers, ends as it is told, and says what is wrong."""

from __future__ import annotations

import builtins
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from etir.llm import LanguageModel, Sampling
from etir.tools import et_llm

from etir_testing.llm.small import ALPHABET, write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("small"))


def call(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_answers_until_a_signal(model: Path, end: signal.Signals) -> None:
    options = ["--port", "0", "--name", "mine", "--sessions", "2", "--queue", "3", "--threads", "1", "--grace", "2"]
    options += ["--time-limit", "60", "--max-body", "8", "--max-messages", "5", "--temperature", "0", "--top-k", "0"]
    options += ["--top-p", "1", "--min-p", "0", "--repetition-penalty", "1", "--host", "127.0.0.1"]
    options += [
        "--tokenizer",
        str(model.with_suffix(".tokenizer.json")),
        "--chat",
        str(model.with_suffix(".chat.json")),
    ]
    command = [Path(sys.executable).with_name("et-llm"), "serve", model, *options, "--allow-host", "box"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        url = line.partition(" at ")[2].partition(" ")[0]
        assert line.startswith("'mine' at http://127.0.0.1:"), process.stderr.read()
        said = call(f"{url}v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 6})
        process.send_signal(end)
        process.wait(30)
        assert process.stderr.read() == ""
    assert process.returncode in (0, -end)
    loaded = LanguageModel.load(model, threads=1)
    prompt = loaded.tokenizer.encode(loaded.render([{"role": "user", "content": "hi"}]))
    assert prompt == [ALPHABET.index(letter) for letter in "u:hi;a:"]
    text = "".join(token.text for token in loaded.session().generate(prompt, Sampling(), 6))
    assert said["choices"][0]["message"]["content"] == text
    assert said["model"] == "mine" and said["usage"]["completion_tokens"] == 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--sessions", "0"), "error[E0901]: --sessions has to be 1 or more"),
        (("--port", "99999"), "error[E0901]: --port has to be 65535 or less"),
        (("--temperature", "3"), "error[E0901]: --temperature is not a number from 0 to 2"),
        (("--host", "0.0.0.0"), "error[E1743]"),
        (("--allow-remote", "--host", "no such host"), "error[E1742]"),
        (("--isa", "none"), "error["),
        (("--trust-native-code", "--tokenizer", "nowhere.json"), "error[E1701]"),
    ],
)
def test_what_is_wrong(model: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str) -> None:
    assert et_llm.main(["serve", str(model), "--port", "0", *options]) == 1
    assert words in capsys.readouterr().err


def test_a_port_that_is_taken(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert et_llm.main(["serve", str(model), "--port", str(taken.getsockname()[1])]) == 1
    assert "error[E1742]" in capsys.readouterr().err


def test_without_the_extra(model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("etir.llm.serve.app", "starlette"))]:
        monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("starlette"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert et_llm.main(["serve", str(model)]) == 1
    assert "error[E1741]: the Python package 'starlette" in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--help", "--version"):
        with pytest.raises(SystemExit) as ended:
            et_llm.main(["serve", option, "--debug", "--color", "never"])
        assert ended.value.code == 0
        assert "et-llm serve" in capsys.readouterr().out
