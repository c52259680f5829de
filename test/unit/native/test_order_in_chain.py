"""The order of the kernels in several delegates that are planned as one."""

from __future__ import annotations

import pytest

transformers = pytest.importorskip("transformers")
import torch  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.memory_bound import bytes_of  # noqa: E402

from etir_testing.models.zoo_entry import torchvision_models  # noqa: E402

SIZES = {"num_hidden_layers": 2, "projection_dim": 32}
TEXT = {"vocab_size": 1000, "hidden_size": 128, "intermediate_size": 512, "num_attention_heads": 4, **SIZES}
IMAGE = {"hidden_size": 192, "intermediate_size": 768, "num_attention_heads": 6, "image_size": 128, **SIZES}


class Scores(torch.nn.Module):
    """What of an image lives while a text is read, as results of the program do, and then the text's mask."""

    def __init__(self) -> None:
        super().__init__()
        text = {**TEXT, "bos_token_id": 998, "eos_token_id": 999}
        self.model = transformers.CLIPModel(
            transformers.CLIPConfig(text_config=text, vision_config=IMAGE, projection_dim=32)
        )

    def forward(self, words: torch.Tensor, image: torch.Tensor, there: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.model(input_ids=words, pixel_values=image, attention_mask=there)
        texts, images = found.text_model_output, found.vision_model_output
        return found.logits_per_image, texts.last_hidden_state, images.last_hidden_state, images.pooler_output


@pytest.mark.filterwarnings("ignore")
def test_outputs_count_from_when_they_are_written() -> None:
    """Two delegates need no more than the kernels: in the first one these make the mask again for the second layer,
    beside which results of the program wait, although the delegate by itself needs most elsewhere.
    """
    torchvision_models()
    torch.manual_seed(0)
    model = Scores().eval()
    inputs = (torch.randint(3, 990, (1, 77)), torch.randn(1, 3, 128, 128), torch.ones(1, 77, dtype=torch.long))
    exported = torch.export.export(model, inputs, strict=False)
    program = etir.compile(exported, target="etir", delegates=["native{cpus=x86-64-v4}"])
    assert program.delegation is not None and len(program.delegation.backends[0].partitions) == 2
    assert bytes_of(program) <= bytes_of(etir.compile(exported, target="etir"))
    with torch.no_grad():
        wanted = model(*inputs)
    for native in ("trusted", "refuse"):
        for got, want in zip(etir.runtime.load(program, native=native).forward(*inputs), wanted, strict=True):
            error = (torch.as_tensor(got) - want).abs().max()
            assert error <= 1e-5 * want.abs().max()
