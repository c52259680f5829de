"""The entries of the zoo, as data."""

from __future__ import annotations

from functools import partial

from etir_testing.models import static_cache
from etir_testing.models.families import (
    announced,
    efficient_sam,
    emformer,
    gan,
    inception_v4,
    lennard_jones,
    llama_decoder,
    recurrent,
    restoration,
    small_nets,
    speech,
    transformers_models,
    vision,
    yolo,
)
from etir_testing.models.families.vision import image_model
from etir_testing.models.zoo_entry import EXACT, LINEAR_GAIN, Entry

_TORCHVISION = ("torchvision",)
_TRANSFORMERS = ("transformers",)


def _vision(name: str, build, paper: str, *, small: bool = False, sweep: bool = False) -> Entry:
    return Entry(name, build, f"torchvision; {paper}", small=small, sweep=sweep, requires=_TORCHVISION)


ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "llama2_prefill",
            partial(llama_decoder.prefill, llama_decoder.LLAMA2_SMALL, 7),
            "Touvron et al., 2023",
            small=True,
        ),
        Entry(
            "llama2_decode",
            partial(llama_decoder.decode, llama_decoder.LLAMA2_SMALL),
            "Touvron et al., 2023",
            small=True,
        ),
        Entry(
            "llama3_prefill",
            partial(llama_decoder.prefill, llama_decoder.LLAMA3_SMALL, 7),
            "Grattafiori et al., 2024",
            small=True,
        ),
        Entry(
            "llama3_decode",
            partial(llama_decoder.decode, llama_decoder.LLAMA3_SMALL),
            "Grattafiori et al., 2024",
            small=True,
        ),
        Entry(
            "llama2_7b_prefill",
            partial(llama_decoder.without_weights, llama_decoder.LLAMA2_7B, False),
            "Touvron et al., 2023",
            shape_only=True,
        ),
        Entry(
            "llama2_7b_decode",
            partial(llama_decoder.without_weights, llama_decoder.LLAMA2_7B, True),
            "Touvron et al., 2023",
            shape_only=True,
        ),
        Entry(
            "llama3_8b_prefill",
            partial(llama_decoder.without_weights, llama_decoder.LLAMA3_8B, False),
            "Grattafiori et al., 2024",
            shape_only=True,
        ),
        Entry(
            "llama3_8b_decode",
            partial(llama_decoder.without_weights, llama_decoder.LLAMA3_8B, True),
            "Grattafiori et al., 2024",
            shape_only=True,
        ),
        Entry("inception_v4", inception_v4.build, "Szegedy et al., 2016"),
        Entry("edsr", restoration.build, "Lim et al., 2017", small=True),
        Entry("emformer_transcribe", emformer.transcriber, "Shi et al., 2020", small=True),
        Entry("emformer_predict", emformer.predictor, "Shi et al., 2020", EXACT, small=True),
        Entry("emformer_join", emformer.joiner, "Graves, 2012", EXACT, small=True),
        Entry("conformer", speech.conformer, "Gulati et al., 2020", small=True),
        Entry("wav2letter", speech.wav2letter, "Collobert et al., 2016"),
        Entry("efficient_sam", efficient_sam.build, "Xiong et al., 2023", small=True),
        Entry("yolov5n", yolo.build, "Jocher, 2020"),
        Entry("lstm", recurrent.tagger, "Hochreiter and Schmidhuber, 1997", EXACT, small=True),
        Entry("lstm_gru", recurrent.two_directions, "Cho et al., 2014", EXACT, small=True),
        Entry("learning_to_paint", small_nets.learning_to_paint, "Huang et al., 2019"),
        Entry("dcgan_generator", gan.generator, "Radford et al., 2015", EXACT, small=True),
        Entry("dcgan_discriminator", gan.discriminator, "Radford et al., 2015", EXACT, small=True),
        Entry("maml_omniglot", small_nets.maml_omniglot, "Finn et al., 2017", EXACT, small=True),
        Entry("functorch_dp_cifar10", small_nets.group_norm_resnet, "De et al., 2022", small=True),
        Entry("lennard_jones", lennard_jones.cluster, "Lennard-Jones, 1924", EXACT, small=True),
        Entry("lennard_jones_net", lennard_jones.learned, "Lennard-Jones, 1924", EXACT, small=True),
        Entry("mobilebert", announced.mobilebert, "transformers; Sun et al., 2020", requires=_TRANSFORMERS),
        Entry(
            "mobilebert_small",
            announced.mobilebert_small,
            "transformers; Sun et al., 2020",
            small=True,
            requires=_TRANSFORMERS,
        ),
        Entry(
            "whisper_tiny_encoder",
            announced.whisper_encoder,
            "transformers; Radford et al., 2022",
            requires=_TRANSFORMERS,
        ),
        Entry(
            "whisper_tiny_decoder",
            announced.whisper_decoder,
            "transformers; Radford et al., 2022",
            requires=_TRANSFORMERS,
        ),
        Entry("mamba", announced.mamba, "transformers; Gu and Dao, 2023", small=True, requires=_TRANSFORMERS),
        _vision("mobilenet_v2", image_model("mobilenet_v2", 96), "Sandler et al., 2018", small=True),
        _vision("mobilenet_v3_small", image_model("mobilenet_v3_small", 96), "Howard et al., 2019", small=True),
        _vision("mobilenet_v3_large", image_model("mobilenet_v3_large", 128), "Howard et al., 2019"),
        _vision("resnet18", image_model("resnet18", 64), "He et al., 2015", small=True),
        _vision("resnet50", image_model("resnet50", 96), "He et al., 2015"),
        _vision(
            "inception_v3",
            image_model("inception_v3", 139, init_weights=False, aux_logits=False),
            "Szegedy et al., 2015",
        ),
        _vision("mnasnet1_0", image_model("mnasnet1_0", 96), "Tan et al., 2018", small=True),
        _vision("shufflenet_v2_x1_0", image_model("shufflenet_v2_x1_0", 64), "Ma et al., 2018", small=True),
        _vision("squeezenet1_1", image_model("squeezenet1_1", 64), "Iandola et al., 2016", small=True),
        _vision("efficientnet_b0", image_model("efficientnet_b0", 96), "Tan and Le, 2019"),
        _vision("vit_b_16", image_model("vit_b_16", 64, image_size=64, gain=LINEAR_GAIN), "Dosovitskiy et al., 2020"),
        _vision("deeplabv3_resnet50", image_model("deeplabv3_resnet50", 65, group="segmentation"), "Chen et al., 2017"),
        _vision("alexnet", image_model("alexnet", 96), "Krizhevsky, 2014", sweep=True),
        _vision("vgg11_bn", image_model("vgg11_bn", 32), "Simonyan and Zisserman, 2014", sweep=True),
        _vision("densenet121", image_model("densenet121", 64), "Huang et al., 2016", sweep=True),
        _vision(
            "googlenet",
            image_model("googlenet", 64, init_weights=False, aux_logits=False),
            "Szegedy et al., 2014",
            sweep=True,
        ),
        _vision("convnext_tiny", image_model("convnext_tiny", 64, gain=LINEAR_GAIN), "Liu et al., 2022", sweep=True),
        _vision("swin_t", image_model("swin_t", 64, gain=LINEAR_GAIN), "Liu et al., 2021", sweep=True),
        _vision("swin_v2_t", image_model("swin_v2_t", 64, gain=LINEAR_GAIN), "Liu et al., 2022", sweep=True),
        _vision("maxvit_t", image_model("maxvit_t", 224, gain=LINEAR_GAIN), "Tu et al., 2022", sweep=True),
        _vision("regnet_y_400mf", image_model("regnet_y_400mf", 64), "Radosavovic et al., 2020", sweep=True),
        _vision("resnext50_32x4d", image_model("resnext50_32x4d", 64), "Xie et al., 2016", sweep=True),
        _vision(
            "efficientnet_v2_s", image_model("efficientnet_v2_s", 64, gain=LINEAR_GAIN), "Tan and Le, 2021", sweep=True
        ),
        _vision("fcn_resnet50", image_model("fcn_resnet50", 64, group="segmentation"), "Long et al., 2014", sweep=True),
        _vision(
            "lraspp_mobilenet_v3_large",
            image_model("lraspp_mobilenet_v3_large", 64, group="segmentation"),
            "Howard et al., 2019",
            sweep=True,
        ),
        _vision(
            "deeplabv3_mobilenet_v3_large",
            image_model("deeplabv3_mobilenet_v3_large", 64, group="segmentation"),
            "Chen et al., 2017",
            sweep=True,
        ),
        _vision("fpn_resnet50", partial(vision.backbone_with_pyramid, 64), "Lin et al., 2016", sweep=True),
        _vision("r3d_18", image_model("r3d_18", 32, group="video", frames=4), "Tran et al., 2017", sweep=True),
        _vision("mc3_18", image_model("mc3_18", 32, group="video", frames=4), "Tran et al., 2017", sweep=True),
        _vision(
            "r2plus1d_18", image_model("r2plus1d_18", 32, group="video", frames=4), "Tran et al., 2017", sweep=True
        ),
        _vision("mvit", vision.mvit, "Li et al., 2021", sweep=True),
        _vision(
            "swin3d_t",
            image_model("swin3d_t", 64, group="video", frames=4, gain=LINEAR_GAIN),
            "Liu et al., 2021",
            sweep=True,
        ),
        _vision("raft_small", partial(vision.raft, 128), "Teed and Deng, 2020", sweep=True),
        *(
            Entry(
                f"{name}_static_cache",
                partial(static_cache.build, name),
                "transformers, with its static cache",
                tolerance=EXACT,
                requires=_TRANSFORMERS,
            )
            for name in static_cache.DECODERS
        ),
        *(
            Entry(f"hf_{name}", build, "transformers", sweep=True, requires=_TRANSFORMERS)
            for name, build in transformers_models.BUILDERS.items()
        ),
    )
}
"""Every entry by its name."""
