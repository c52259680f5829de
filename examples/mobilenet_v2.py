"""Image classification with MobileNetV2, compiled by etir, on the stock ExecuTorch runtime.

The network is written from its paper and has seeded random weights, so its classes mean nothing; what counts is that
the compiled program ranks them as eager PyTorch does. An output that differs from eager by more than 1e-4 of the
largest logit makes the exit code 1.
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

PACKAGES = {"etir": "'etir[torch]'", "torch": "torch==2.13.0", "executorch": "executorch==1.5.1"}
TOLERANCE = 1e-4


def test_card(size: int) -> torch.Tensor:
    """A picture to classify, f32[1, 3, size, size] of about unit variance: a disc over color gradients."""
    import torch

    axis = torch.linspace(-1.5, 1.5, size)
    vertical, horizontal = torch.meshgrid(axis, axis, indexing="ij")
    disc = (vertical.square() + horizontal.square() < 1.0).float()
    return torch.stack((vertical, horizontal - disc, 2.0 * disc - 1.0)).unsqueeze(0)


def classify(seed: int, size: int, top: int, path: Path) -> int:
    """The whole example: build, compile to ``path``, run, compare with eager; returns the exit code."""
    with step("Loading PyTorch"):
        import torch
        from executorch.runtime import Runtime

        import etir

        from etir_testing.models.mobilenet_v2 import MobileNetV2
        from etir_testing.models.seeding import seed_weights

    with step("Building MobileNetV2 with seeded weights"):
        model = seed_weights(MobileNetV2(), seed)
    image = test_card(size)
    with step("Exporting"), torch.no_grad():
        program = torch.export.export(model, (image,))
        expected = model(image)[0]
    with step("Compiling with etir"):
        etir.compile(program, target="executorch").save(path)
    print(f"{path}: {path.stat().st_size:,} bytes", file=sys.stderr)

    with step("Running on ExecuTorch"):
        method = Runtime.get().load_program(path).load_method("forward")
        if method is None:
            raise RuntimeError(f"{path} has no method 'forward'")
        logits = method.execute((image,))[0][0].clone()

    print("rank  class   logit   eager")
    for rank, index in enumerate(logits.topk(top).indices.tolist(), start=1):
        print(f"{rank:4}  {index:5}  {logits[index]:6.3f}  {expected[index]:6.3f}")
    difference = (logits - expected).abs().max().item()
    relative = difference / expected.abs().max().item()
    print(f"Largest absolute difference from eager: {difference:.1e} ({relative:.1e} of the largest logit)")
    if not relative <= TOLERANCE:
        print(f"error: the difference is above {TOLERANCE:.0e} of the largest logit", file=sys.stderr)
        return 1
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example with command-line arguments ``argv``; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights (default 0)")
    parser.add_argument("--size", type=int, default=224, help="height and width of the picture (default 224)")
    parser.add_argument("--top", type=int, default=5, metavar="N", help="classes to print (default 5)")
    parser.add_argument("-o", "--output", type=Path, metavar="PTE", help="keep the compiled program here")
    options = parser.parse_args(argv)
    if options.size < 32:
        parser.error("--size is below 32")
    if not 1 <= options.top <= 1000:
        parser.error("--top is not in 1 to 1000")
    if options.output is not None and not options.output.resolve().parent.is_dir():
        parser.error(f"no folder {options.output.resolve().parent} to write {options.output.name} to")
    if problem := missing_packages(PACKAGES):
        print(problem, file=sys.stderr)
        return 1

    from etir.diagnostics import EtirError

    sys.path.insert(0, str(TEST_FOLDER))
    with tempfile.TemporaryDirectory() as folder:
        path = options.output or Path(folder) / "mobilenet_v2.pte"
        try:
            return classify(options.seed, options.size, options.top, path)
        except (EtirError, OSError) as error:
            print(error, file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
