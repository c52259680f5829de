"""How tokens are chosen: what the runner, the server and the command lines take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen, in this order: penalty, temperature, top-k, top-p, min-p.

    The same seed gives the same numbers on every machine. Out of its range a setting raises EtirError (E1724) where it
    is used.
    """

    temperature: float = 0.0
    """0 takes the most likely token, always; at most 100."""
    top_k: int = 0
    """Only the k most likely tokens; 0: all."""
    top_p: float = 1.0
    """Only the most likely tokens that together have this probability."""
    min_p: float = 0.0
    """Only tokens with at least this part of the highest probability."""
    repetition_penalty: float = 1.0
    """Positive logits of tokens in the window are divided by it, negative ones multiplied."""
    repetition_window: int = 64
    """How many of the answer's last tokens count, each once. Tokens of the prompt never do."""
    seed: int = 0
