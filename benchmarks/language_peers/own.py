"""etir's own runtime by its Python interface, on a file of ``et-llm compile``."""

from __future__ import annotations

from collections.abc import Sequence

from worker import Engine, in_calls, serve

from etir.llm.session import LanguageModel


class Own:
    name = "etir"

    def __init__(self, path: str, threads: int) -> None:
        self._session = LanguageModel.load(path, threads=threads).session()

    def following(self, prompt: Sequence[int]) -> int:
        return next(self._session.generate(prompt, max_tokens=1)).id

    def measure(self, prompt: Sequence[int], tokens: int) -> tuple[float, list[float]]:
        session = self._session
        return in_calls(lambda: session.rewind(len(session.tokens)), session.prefill, prompt, tokens)


def make(path: str, threads: int) -> Engine:
    return Own(path, threads)


if __name__ == "__main__":
    serve(make)
