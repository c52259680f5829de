"""YOLOv5 (Jocher, 2020): CSP backbone with SPPF, PANet neck, detection head with anchors, decoded to boxes."""

from __future__ import annotations

import torch
from torch import nn

from etir_testing.models.seeding import seeded_normal
from etir_testing.models.zoo_entry import Built, seeded


class Conv(nn.Sequential):
    """Convolution that keeps the size at stride 1, batch norm, SiLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, padding: int | None = None) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2 if padding is None else padding, bias=False),
            nn.BatchNorm2d(outputs, eps=1e-3),
            nn.SiLU(inplace=True),
        )


class Bottleneck(nn.Module):
    """A 1x1 and a 3x3 convolution, added to the input where ``shortcut``."""

    def __init__(self, width: int, shortcut: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(Conv(width, width), Conv(width, width, 3))
        self.shortcut = shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.shortcut else self.layers(x)


class C3(nn.Module):
    """Cross-stage partial block (Wang et al., 2019): half of the channels pass by the bottlenecks."""

    def __init__(self, inputs: int, outputs: int, count: int, shortcut: bool = True) -> None:
        super().__init__()
        half = outputs // 2
        self.through = nn.Sequential(Conv(inputs, half), *(Bottleneck(half, shortcut) for _ in range(count)))
        self.past = Conv(inputs, half)
        self.join = Conv(2 * half, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.join(torch.cat((self.through(x), self.past(x)), 1))


class Sppf(nn.Module):
    """Spatial pyramid pooling by three poolings in a row."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.enter = Conv(inputs, inputs // 2)
        self.leave = Conv(inputs * 2, outputs)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        first = self.pool(x)
        second = self.pool(first)
        return self.leave(torch.cat((x, first, second, self.pool(second)), 1))


class Detect(nn.Module):
    """Maps of three scales → boxes f32[N, anchors, 5 + classes]: center and size in pixels, confidences."""

    anchors: torch.Tensor
    SCALES = (8, 16, 32)

    def __init__(self, classes: int, widths: tuple[int, int, int]) -> None:
        super().__init__()
        self.values = classes + 5
        self.heads = nn.ModuleList([nn.Conv2d(width, 3 * self.values, 1) for width in widths])
        anchors = [10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119, 116, 90, 156, 198, 373, 326]
        self.register_buffer("anchors", torch.tensor(anchors, dtype=torch.float32).view(3, 1, 3, 1, 1, 2))

    def forward(self, maps: list[torch.Tensor]) -> torch.Tensor:
        found = []
        for index, (head, x) in enumerate(zip(self.heads, maps, strict=True)):
            batch, _, rows, columns = x.shape
            y = head(x).view(batch, 3, self.values, rows, columns).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
            row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
            grid = torch.stack((column, row), dim=-1).expand(1, 3, rows, columns, 2) - 0.5
            y[..., 0:2] = (y[..., 0:2] * 2 + grid) * self.SCALES[index]
            y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * self.anchors[index]
            found.append(y.view(batch, -1, self.values))
        return torch.cat(found, 1)


class YoloV5(nn.Module):
    """f32[N, 3, H, W], multiples of 32 → boxes; ``width`` 16 and depths (1, 2, 3, 1) are the nano model."""

    def __init__(self, classes: int = 20, width: int = 16, depths: tuple[int, int, int, int] = (1, 2, 3, 1)) -> None:
        super().__init__()
        w1, w2, w3, w4, w5 = (width << i for i in range(5))
        self.stage3 = nn.Sequential(
            Conv(3, w1, 6, 2, 2), Conv(w1, w2, 3, 2), C3(w2, w2, depths[0]), Conv(w2, w3, 3, 2), C3(w3, w3, depths[1])
        )
        self.stage4 = nn.Sequential(Conv(w3, w4, 3, 2), C3(w4, w4, depths[2]))
        self.stage5 = nn.Sequential(Conv(w4, w5, 3, 2), C3(w5, w5, depths[3]), Sppf(w5, w5))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.lateral5, self.merge4 = Conv(w5, w4), C3(w5, w4, depths[0], False)
        self.lateral4, self.merge3 = Conv(w4, w3), C3(w4, w3, depths[0], False)
        self.down3, self.out4 = Conv(w3, w3, 3, 2), C3(w4, w4, depths[0], False)
        self.down4, self.out5 = Conv(w4, w4, 3, 2), C3(w5, w5, depths[0], False)
        self.detect = Detect(classes, (w3, w4, w5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        p3 = self.stage3(x)
        p4 = self.stage4(p3)
        top = self.lateral5(self.stage5(p4))
        middle = self.lateral4(self.merge4(torch.cat((self.up(top), p4), 1)))
        n3 = self.merge3(torch.cat((self.up(middle), p3), 1))
        n4 = self.out4(torch.cat((self.down3(n3), middle), 1))
        n5 = self.out5(torch.cat((self.down4(n4), top), 1))
        return self.detect([n3, n4, n5])


def build() -> Built:
    return Built(seeded(YoloV5()), (seeded_normal(1, 1, 3, 96, 128),))
