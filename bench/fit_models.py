# SPDX-License-Identifier: Apache-2.0
"""What the expressions in fit_models.json build models and inputs with. Weights are random; nothing is
downloaded."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

randn = torch.randn


def ids(*shape: int) -> torch.Tensor:
    return torch.randint(3, 100, shape)


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.long)


def tm(name: str, **options: Any) -> Any:
    import timm

    return timm.create_model(name, pretrained=False, **options)


def hf(family: str, head: str = "Model", **config: Any) -> Any:
    import transformers

    settings = getattr(transformers, f"{family}Config")(**config)
    return getattr(transformers, f"{family}{head}")(settings)


def tv(path: str, **options: Any) -> Any:
    """`torchvision.models.PATH`, without weights."""
    import importlib

    module, _, name = path.rpartition(".")
    home = importlib.import_module(f"torchvision.models.{module}".rstrip("."))
    return getattr(home, name)(weights=None, **options)


def pyramid(name: str) -> Any:
    """The part of a detector before its boxes."""
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

    return resnet_fpn_backbone(backbone_name=name, weights=None, trainable_layers=5)


class Detector(nn.Module):
    """A pyramid of features with RetinaNet's heads on it, up to what is scored."""

    def __init__(self, name: str) -> None:
        super().__init__()
        from torchvision.models.detection.retinanet import RetinaNetHead

        self.features = pyramid(name)
        self.head = RetinaNetHead(self.features.out_channels, num_anchors=9, num_classes=21)

    def forward(self, x: torch.Tensor) -> Any:
        return self.head(list(self.features(x).values()))


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256))


def parallel(**options: Any) -> nn.Module:
    """Under DistributedDataParallel, in a group of this process alone."""
    import tempfile

    import torch.distributed as dist

    if not dist.is_initialized():
        meet = tempfile.mkdtemp()
        dist.init_process_group("gloo", init_method=f"file://{meet}/meet", rank=0, world_size=1)
    return nn.parallel.DistributedDataParallel(perceptron(), **options)


def quantised() -> nn.Module:
    """Weights of torchao in 8 bits."""
    from torchao import quantization

    model = perceptron()
    quantization.quantize_(model, quantization.Int8WeightOnlyConfig())
    return model


class Loop(nn.Module):
    """A cell of little work, a thousand times."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(2, 8)
        for _ in range(1000):
            state = self.cell(x, state)
        return state


class Recurrent(nn.Module):
    """A language model or a classifier of sequences."""

    def __init__(self, kind: str, width: int = 96, hidden: int = 160, **options: Any) -> None:
        super().__init__()
        self.table = nn.Embedding(1000, width)
        self.cells = getattr(nn, kind)(width, hidden, batch_first=True, **options)
        both = 2 if options.get("bidirectional") else 1
        self.out = nn.Linear(both * options.get("proj_size", hidden), 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.cells(self.table(x))[0])


class Translator(nn.Module):
    """One recurrence reads, another writes, with attention between them."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(500, 64)
        self.reads = nn.GRU(64, 128, batch_first=True)
        self.writes = nn.GRU(64, 128, batch_first=True)
        self.out = nn.Linear(256, 500)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        seen, state = self.reads(self.table(x))
        said, _ = self.writes(self.table(y), state)
        weights = torch.softmax(said @ seen.transpose(1, 2), -1)
        return self.out(torch.cat([said, weights @ seen], -1))


def generator(channels: int = 64, seed: int = 100) -> nn.Module:
    """As DCGAN's: transposed convolutions from one position to an image of 64 by 64."""
    parts: list[nn.Module] = []
    widths = [seed, 8 * channels, 4 * channels, 2 * channels, channels]
    for i, (before, after) in enumerate(pairwise(widths)):
        stride, pad = (1, 0) if i == 0 else (2, 1)
        parts += [
            nn.ConvTranspose2d(before, after, 4, stride, pad, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        ]
    return nn.Sequential(*parts, nn.ConvTranspose2d(channels, 3, 4, 2, 1, bias=False), nn.Tanh())


def autoencoder() -> nn.Module:
    """Halves an image three times and doubles it again."""
    return nn.Sequential(
        *(
            nn.Conv2d(3, 32, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(64, 128, 3, 2, 1),
        ),
        *(nn.ReLU(), nn.ConvTranspose2d(128, 64, 3, 2, 1, 1), nn.ReLU()),
        *(
            nn.ConvTranspose2d(64, 32, 3, 2, 1, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 3, 3, 2, 1, 1),
            nn.Sigmoid(),
        ),
    )


class Unet(nn.Module):
    """Down and up again, each height joined with what it was on the way down."""

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128, 256)) -> None:
        super().__init__()

        def twice(before: int, after: int) -> nn.Module:
            return nn.Sequential(
                *(
                    nn.Conv2d(before, after, 3, padding=1, bias=False),
                    nn.BatchNorm2d(after),
                    nn.ReLU(inplace=True),
                ),
                *(
                    nn.Conv2d(after, after, 3, padding=1, bias=False),
                    nn.BatchNorm2d(after),
                    nn.ReLU(inplace=True),
                ),
            )

        self.down = nn.ModuleList(twice(a, b) for a, b in zip((3, *widths), widths, strict=False))
        wide = widths[::-1]
        self.grow = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairwise(wide))
        self.up = nn.ModuleList(twice(2 * b, b) for b in wide[1:])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = kept.pop()
        for grow, up in zip(self.grow, self.up, strict=True):
            x = up(torch.cat([kept.pop(), grow(x)], 1))
        return self.head(x)


def vocoder() -> nn.Module:
    """As HiFi-GAN's: from 80 bands to samples, by transposed convolutions along one axis."""
    parts: list[nn.Module] = [nn.Conv1d(80, 128, 7, padding=3)]
    for before, after, stride in ((128, 64, 8), (64, 32, 8), (32, 16, 2)):
        parts += [nn.LeakyReLU(0.1), nn.ConvTranspose1d(before, after, 2 * stride, stride, stride // 2)]
        parts += [nn.LeakyReLU(0.1), nn.Conv1d(after, after, 3, dilation=3, padding=3)]
    return nn.Sequential(*parts, nn.Conv1d(16, 1, 7, padding=3), nn.Tanh())


def volumes() -> nn.Module:
    """An autoencoder of volumes."""
    return nn.Sequential(
        *(nn.Conv3d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv3d(16, 32, 3, 2, 1), nn.ReLU()),
        *(nn.ConvTranspose3d(32, 16, 2, 2), nn.ReLU(), nn.ConvTranspose3d(16, 1, 2, 2)),
    )
