"""llama.cpp by the functions of its library, as llama-cpp-python has it, on a GGUF file, with its defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llama_cpp  # pyright: ignore[reportMissingImports]
from worker import Engine, in_calls, serve

CONTEXT = 2048


class LlamaCpp:
    name = f"llama.cpp of llama-cpp-python {llama_cpp.__version__}"

    def __init__(self, path: str, threads: int) -> None:
        self._model: Any = llama_cpp.Llama(
            path, n_ctx=CONTEXT, n_threads=threads, n_threads_batch=threads, n_batch=1024, verbose=False
        )
        self._context = self._model.ctx if hasattr(self._model, "ctx") else self._model._ctx.ctx
        self._memory = llama_cpp.llama_get_memory(self._context)

    def _begin(self) -> None:
        llama_cpp.llama_memory_clear(self._memory, True)

    def _feed(self, ids: Sequence[int]) -> Any:
        array = (llama_cpp.llama_token * len(ids))(*ids)
        if llama_cpp.llama_decode(self._context, llama_cpp.llama_batch_get_one(array, len(ids))) != 0:
            raise RuntimeError("llama_decode failed")
        return llama_cpp.llama_get_logits_ith(self._context, -1)

    def following(self, prompt: Sequence[int]) -> int:
        self._begin()
        logits = self._feed(prompt)
        return max(range(self._model.n_vocab()), key=lambda index: logits[index])

    def measure(self, prompt: Sequence[int], tokens: int) -> tuple[float, list[float]]:
        return in_calls(self._begin, self._feed, prompt, tokens)


def make(path: str, threads: int) -> Engine:
    return LlamaCpp(path, threads)


if __name__ == "__main__":
    serve(make)
