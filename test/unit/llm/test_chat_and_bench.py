"""``et-llm chat`` and ``et-llm bench`` with a small model."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from etir.llm.chat_description import ChatDescription
from etir.llm.session import LanguageModel
from etir.tools.et_llm import main

from etir_testing.models.language_model import EOS, SmallModel, write_small_model

CHAT, BENCH = "et-llm chat", "et-llm bench"
TEMPLATE = (
    "{% for m in messages %}{{ m.role[0] }}{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}a{% endif %}"
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallModel:
    made = write_small_model(tmp_path_factory.mktemp("small"))
    description = {
        "chat_template": TEMPLATE,
        "eos_ids": [EOS],
        "name": "Small",
        "bos_token": "<|start|>",
        "add_bos": True,
    }
    made.path.with_suffix(".chat.json").write_text(json.dumps(description))
    return made


def words(command: str) -> list[str]:
    return command.split()[1:]


def answer(small: SmallModel, prompt: str, count: int) -> str:
    """By hand: the template, the tokens of eager, the text."""
    tokenizer = LanguageModel.load(small.path, threads=1).tokenizer
    ids = [0, *tokenizer.encode(prompt)]
    found = small.greedy(ids, count)
    return tokenizer.decode(found, skip_special_tokens=True)


def test_one_prompt(small: SmallModel, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    model = str(small.path)
    assert main([*words(CHAT), model, "--prompt", "hi", "--max-tokens", "6", "--threads", "1", "--stats"]) == 0
    out, err = capsys.readouterr()
    assert out == answer(small, "uhi<|end|>a", 6) + "\n"
    assert "[prompt " in err and "answer 6 tokens" in err
    monkeypatch.setattr("sys.stdin", io.StringIO("hi"))
    assert main([*words(CHAT), model, "--prompt", "-", "--system", "S", "--max-tokens=6"]) == 0
    assert capsys.readouterr().out == answer(small, "sS<|end|>uhi<|end|>a", 6) + "\n"
    assert main([*words(CHAT), model, "--prompt=hi", "--raw", "--max-tokens=6", "--isa", "baseline"]) == 0
    tokenizer = LanguageModel.load(small.path).tokenizer
    raw = small.greedy(tokenizer.encode("hi"), 6)
    assert capsys.readouterr().out == tokenizer.decode(raw, skip_special_tokens=True) + "\n"
    settings = (
        "--temperature 0.9 --top-k 40 --top-p 0.9 --min-p 0.01 --repetition-penalty 1.1 --repetition-window 8 --seed 4"
    )
    files = [
        "--tokenizer",
        str(small.path.with_suffix(".tokenizer.json")),
        "--chat",
        str(small.path.with_suffix(".chat.json")),
    ]
    twice: list[str] = []
    for _ in range(2):
        more = ["--prompt=hi", "--stop", "zzz", "--trust-native-code", "--json", "--color", "never", "--debug"]
        assert main([*words(CHAT), model, *settings.split(), *files, *more]) == 0
        twice.append(capsys.readouterr().out)
    assert twice[0] == twice[1] and twice[0].lstrip().startswith("{")


def test_a_conversation(
    small: SmallModel, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = tmp_path / "saved"
    lines = [
        "ab",
        f"/save {saved}",
        "c",
        "/reset",
        "ab",
        f"/restore {saved}",
        "c",
        "/stats",
        "/help",
        "/system X",
        "d",
        "/restore /nowhere",
        "/exit",
        "never",
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    assert main([*words(CHAT), str(small.path), "--max-tokens", "3"]) == 0
    out, err = capsys.readouterr()
    first = answer(small, "uab<|end|>a", 3)
    second = answer(small, f"uab<|end|>a{first}<|end|>uc<|end|>a", 3)
    third = answer(small, "sX<|end|>ud<|end|>a", 3)
    assert out == f"{first}\n{second}\n{first}\n{second}\n{third}\n"
    assert "error[E1725]" in err and "/save FILE" in err and "[prompt " in err
    messages = json.loads((tmp_path / "saved.messages.json").read_text())
    assert messages == [{"role": "user", "content": "ab"}, {"role": "assistant", "content": first}]
    (tmp_path / "saved.messages.json").write_text("[3]")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"/restore {saved}\n"))
    assert main([*words(CHAT), str(small.path)]) == 0
    assert "holds no messages" in capsys.readouterr().err


def test_the_context_s_end(
    small: SmallModel, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that says so, after which the conversation goes on as if nothing had been said."""
    monkeypatch.setattr("sys.stdin", io.StringIO("x" * 200 + "\n/reset\nab\n"))
    assert main([*words(CHAT), str(small.path), "--max-tokens", "3"]) == 0
    out, err = capsys.readouterr()
    assert "error[E1722]" in err and out == answer(small, "uab<|end|>a", 3) + "\n"
    assert main([*words(CHAT), str(small.path), "--prompt", "x" * 200]) == 1
    assert "error[E1722]" in capsys.readouterr().err


def test_bench(small: SmallModel, capsys: pytest.CaptureFixture[str]) -> None:
    lengths = ["--prefill", "4,9", "--decode", "5", "--threads", "1,2", "--repeat", "2"]
    assert main([*words(BENCH), str(small.path), *lengths, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [run["threads"] for run in report["runs"]] == [1, 2]
    for run in report["runs"]:
        assert [row["prompt_tokens"] for row in run["lengths"]] == [4, 9]
        assert all(row["decode_tokens_per_second"] > 0 < row["prefill_tokens_per_second"] for row in run["lengths"])
        assert 0 < run["load_seconds"] < run["load_to_first_token_seconds"]
        assert run["bandwidth_bytes_per_second"] > 1e8
        assert run["memory"]["file"] == small.path.stat().st_size <= run["memory"]["resident"]
    files = [
        "--tokenizer",
        str(small.path.with_suffix(".tokenizer.json")),
        "--chat",
        str(small.path.with_suffix(".chat.json")),
    ]
    more = ["--isa", "baseline", "--trust-native-code", "--color=never", "--debug"]
    assert main([*words(BENCH), str(small.path), "--prefill=4", "--decode=2", *files, *more]) == 0
    assert "baseline kernels" in capsys.readouterr().out
    assert main([*words(BENCH), str(small.path), "--prefill", "31"]) == 1
    assert "error[E1732]" in capsys.readouterr().err


@pytest.mark.parametrize("command", [CHAT, BENCH])
def test_wrong_command_lines(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words(command))
    assert end.value.code == 2 and "E0901" in capsys.readouterr().err
    for option in ("--help", "--version"):
        with pytest.raises(SystemExit) as end:
            main([*words(command), option])
        assert end.value.code == 0 and command in capsys.readouterr().out
    assert main([*words(command), str(tmp_path / "none.pte")]) == 1
    assert "error[E1733]" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*words(BENCH), "x.pte", "--prefill", "0"])


def test_a_description_without_a_template(small: SmallModel) -> None:
    model = LanguageModel.load(small.path, chat=ChatDescription(name="x"))
    assert "x: context 32" in repr(model)
