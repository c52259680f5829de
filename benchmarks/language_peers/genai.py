"""OpenVINO GenAI's pipeline on a GGUF file, which it reads itself, with its defaults.

It cannot be called for a token; its own clock tells how long the prompt and each token took.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino  # pyright: ignore[reportMissingImports]
import openvino_genai  # pyright: ignore[reportMissingImports]
from worker import Engine, serve


class GenAi:
    name = f"OpenVINO GenAI {openvino_genai.__version__.split('-')[0]}"

    def __init__(self, path: str, threads: int) -> None:
        self._pipeline: Any = openvino_genai.LLMPipeline(path, "CPU", INFERENCE_NUM_THREADS=threads)

    def _run(self, prompt: Sequence[int], tokens: int) -> Any:
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = tokens, True, False
        ids = np.array([prompt], dtype=np.int64)
        given = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
        return self._pipeline.generate(given, config)

    def following(self, prompt: Sequence[int]) -> int:
        return int(self._run(prompt, 1).tokens[0][0])

    def measure(self, prompt: Sequence[int], tokens: int) -> tuple[float, list[float]]:
        raw = self._run(prompt, tokens + 1).perf_metrics.raw_metrics
        return raw.m_times_to_first_token[0] / 1e6, [each / 1e6 for each in raw.m_durations[-tokens:]]


def make(path: str, threads: int) -> Engine:
    return GenAi(path, threads)


if __name__ == "__main__":
    serve(make)
