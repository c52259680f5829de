"""The model registry itself: what it feeds to other tests is finite, varied, reproducible and right."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from etir_testing.models.llama import LlamaBlock
from etir_testing.models.minilm import LONGEST, load_minilm, model_files
from etir_testing.models.mobilenet_v2 import MobileNetV2
from etir_testing.models.registry import MODELS, ModelCase, relative_difference
from etir_testing.models.resnet import ResNet18

PARAMETERS = {
    # counts of torchvision for the first two; the encoder of the checkpoint; sums of the layer sizes for the rest
    "mobilenet_v2": 3_504_872,
    "resnet18": 11_689_512,
    "minilm": 22_713_216 - 384 * 384 - 384,
    "gpt_block": 789_760,
    "llama_block": 725_504,
    "lstm": 220_684,
}


@pytest.fixture(params=list(MODELS))
def case(request: pytest.FixtureRequest) -> ModelCase:
    """Each registered model that can be built with what is installed."""
    found = MODELS[request.param]
    if missing := found.missing():
        pytest.skip(f"not installed: {', '.join(missing)}")
    return found


def test_reference_is_finite_varied_and_reproducible(case: ModelCase) -> None:
    first, second = case.reference(), case.reference()
    assert len(first) == case.steps
    for step, again in zip(first, second, strict=True):
        for output, same in zip(step, again, strict=True):
            assert output.isfinite().all()
            assert output.std() > 0.05 * output.abs().max()
            assert torch.equal(output, same)


def test_outputs_depend_on_the_inputs(case: ModelCase) -> None:
    """A program that forgets its inputs, or its early layers, has to be far outside the tolerance."""
    reference = case.reference()
    same_shape = [step for step in reference[1:] if step[0].shape == reference[0][0].shape]
    for step in same_shape:
        assert relative_difference(step, reference[0]) > 100 * case.tolerance
    assert same_shape or case.dynamic_shapes is not None


def test_weights_are_not_a_fresh_initialization(case: ModelCase) -> None:
    """No parameter and no running statistic is constant: a dropped term would not show."""
    module, _, _ = case.build()
    statistics = [buffer for name, buffer in module.named_buffers() if "running_" in name]
    for tensor in [*module.parameters(), *statistics]:
        assert tensor.min() < tensor.max()


def test_building_leaves_the_global_random_state_out(case: ModelCase) -> None:
    torch.manual_seed(1)
    first, _, _ = case.build()
    torch.manual_seed(2)
    second, _, _ = case.build()
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name
    for step in range(case.steps):
        for tensor, same in zip(case.inputs(step), case.inputs(step), strict=True):
            assert torch.equal(tensor, same)


def test_exported_program_computes_the_reference(case: ModelCase) -> None:
    """The program takes the inputs of every step, also of sizes other than the example's, and agrees with eager."""
    program = case.export()
    _, args, kwargs = case.build()
    inputs_tree = program.call_spec.in_spec
    assert inputs_tree is not None
    assert list(kwargs) == list(inputs_tree.unflatten(range(len(args) + len(kwargs)))[1])
    module = program.module()
    with torch.no_grad():
        outputs = []
        for step in range(case.steps):
            inputs = case.inputs(step)
            called = module(*inputs[: len(args)], **dict(zip(kwargs, inputs[len(args) :], strict=True)))
            outputs.append(pytree.tree_leaves(called))
    assert case.check(outputs) < case.tolerance


@pytest.mark.parametrize("name", list(PARAMETERS))
def test_parameter_counts(name: str) -> None:
    case = MODELS[name]
    if missing := case.missing():
        pytest.skip(f"not installed: {', '.join(missing)}")
    module, _, _ = case.build()
    assert sum(parameter.numel() for parameter in module.parameters()) == PARAMETERS[name]


@pytest.mark.parametrize(
    ("module", "keys"),
    [
        (MobileNetV2(), ("features.0.0.weight", "features.1.conv.1.weight", "features.18.1.bias", "classifier.1.bias")),
        (ResNet18(), ("conv1.weight", "layer1.1.bn2.running_var", "layer4.0.downsample.0.weight", "fc.bias")),
    ],
)
def test_state_dict_keys_are_those_of_torchvision(module: nn.Module, keys: tuple[str, ...]) -> None:
    assert set(keys) <= set(module.state_dict())


def test_two_conds_take_all_branch_combinations() -> None:
    case = MODELS["two_conds"]
    taken = {tuple(bool(tensor.mean() > 0) for tensor in case.inputs(step)) for step in range(case.steps)}
    assert len(taken) == 4


def test_llama_cache_gives_what_one_long_call_gives() -> None:
    """Eight calls of eight tokens with the cache equal one call of all 64 tokens, the textbook computation."""
    case = MODELS["llama_block"]
    module, _, _ = case.build()
    assert isinstance(module, LlamaBlock)
    tokens, positions = zip(*(case.inputs(step) for step in range(case.steps)), strict=True)
    with torch.no_grad():
        expected = module(torch.cat(tokens, dim=1), torch.cat(positions))
    outputs = torch.cat([step[0] for step in case.reference()], dim=1)
    assert relative_difference([outputs], [expected]) < 1e-5


def test_minilm_gives_the_published_similarities() -> None:
    """The three sentences and cosine scores are those of the sentence-transformers quick start for this model."""
    if missing := MODELS["minilm"].missing():
        pytest.skip(f"not installed: {', '.join(missing)}")
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(model_files() / "tokenizer.json"))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(LONGEST)
    batch = tokenizer.encode_batch(
        ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    )
    ids, mask = (torch.tensor([getattr(row, key) for row in batch]) for key in ("ids", "attention_mask"))
    assert not mask.all(), "padding is part of what is tested"
    with torch.no_grad():
        embeddings = load_minilm()(ids, mask)
    scores = embeddings @ embeddings.T
    published = torch.tensor([[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]])
    assert (scores - published).abs().max() < 2e-4


def test_relative_difference_sees_nan_shape_and_dtype() -> None:
    ones = torch.ones(3)
    assert relative_difference([ones], [ones]) == 0.0
    assert relative_difference([ones * 1.5], [ones]) == pytest.approx(0.5)
    for other in (torch.tensor([1.0, float("nan"), 1.0]), torch.ones(2), ones.double()):
        assert relative_difference([other], [ones]) == float("inf")
    assert relative_difference([ones, ones], [ones]) == float("inf")
