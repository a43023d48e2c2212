# SPDX-License-Identifier: Apache-2.0
"""Small nets for the transcripts: each shows something that a screen has to say."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import nn


def chain() -> nn.Module:
    """A plain chain: every total is exact."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


class Block(nn.Module):
    """Two layers and an addition that no layer makes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.relu = nn.ReLU()
        self.second = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(self.relu(self.first(self.relu(x))))


class Zoo(nn.Module):
    """Equal siblings, tied weights, a layer that is never called, a parameter of the container's own."""

    def __init__(self, width: int = 16, words: int = 50) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.scale = nn.Parameter(torch.ones(width))
        self.blocks = nn.Sequential(*(Block(width) for _ in range(4)))
        self.spare = nn.Linear(width, width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        x = self.embed(ids) * self.scale
        return self.head(self.blocks(x if mask is None else x * mask))


class Pair(nn.Module):
    """Takes a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.pixels = nn.Embedding(50, 8), nn.Conv2d(3, 8, 3)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.words(batch["ids"]).mean(1) + self.pixels(batch["image"]).mean((2, 3))


def sentence() -> dict[str, torch.Tensor]:
    """What a Zoo takes, by name."""
    return {"ids": torch.tensor([[3, 1, 4, 1, 5]]), "mask": torch.tensor([[[1], [1], [1], [0], [0]]])}


class Attention(nn.Module):
    """Heads beside each other, without a mask."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        scores = (q @ k.transpose(-1, -2)).softmax(-1)
        return self.output((scores @ v).transpose(1, 2).flatten(-2))


class EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1 = nn.LayerNorm(width)
        self.intermediate = nn.Linear(width, 4 * width)
        self.output = nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.output(nn.functional.gelu(self.intermediate(x))))


class Encoder(nn.Module):
    """As BERT: embeddings, equal layers whose work lies partly outside of layers, a pooler."""

    def __init__(self, layers: int = 6, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.words = nn.Embedding(100, width)
        self.positions = nn.Embedding(64, width)
        self.layers = nn.ModuleList(EncoderLayer(width, heads) for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.pooler(x[:, 0]).tanh()


def not_finite() -> nn.Module:
    """The logarithm of a negative number."""

    class Log(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x - 2).log()

    return nn.Sequential(nn.Linear(8, 8), Log(), nn.Linear(8, 2))


class Fancy(nn.Module):
    """A layer of the user's own, which no table has a rule for."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.sigmoid()


def unruled() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), Fancy(), nn.Linear(8, 2))


def broken() -> nn.Module:
    """The second layer does not fit the first."""
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(15, 2))


class Sorted(nn.Module):
    """Sorting takes as many comparisons as its values ask for."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sort().values


def foreign() -> nn.Module:
    """An operator of somebody's own, whose kernel computes unseen; then one that depends on values."""
    library = torch.library.Library("samples", "DEF")
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda x: torch.tensor([[2 * n for n in row] for row in x.tolist()]), "CPU")

    class Foreign(nn.Module):
        kept = library  # what it registered goes with it

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.samples.double(x)

    return nn.Sequential(nn.Linear(8, 8), Foreign(), Sorted())


class Causal(nn.Module):
    """One head that looks at nothing later than itself, in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24, dtype=torch.bfloat16)
        self.out = nn.Linear(8, 8, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x.bfloat16()).unsqueeze(1).chunk(3, -1)
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).squeeze(1))


class Wider(nn.Module):
    """Zoo's successor: its blocks have another name, one another activation, and the head is a network."""

    def __init__(self, width: int = 16, words: int = 50) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.scale = nn.Parameter(torch.ones(width))
        self.layers = nn.Sequential(*(Block(width) for _ in range(4)))
        self.layers[2].relu = nn.GELU()
        self.head = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, words))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embed(ids) * self.scale))


def tuned() -> nn.Module:
    """The chain with another window, padding and eps, and a convolution without a bias."""
    net = chain()
    net[0] = nn.Conv2d(3, 8, 5, padding=2, bias=False)
    net[1] = nn.BatchNorm2d(8, eps=1e-3)
    return net


class Keeping(nn.Module):
    """Causal attention that keeps keys and values; with a window, those of its last tokens."""

    def __init__(self, width: int, heads: int, window: int | None) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(
        self, x: torch.Tensor, kept: tuple[torch.Tensor, torch.Tensor] | None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if kept is not None:
            k, v = torch.cat([kept[0], k], 2), torch.cat([kept[1], v], 2)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=kept is None)
        last = 0 if self.window is None else 1 - self.window
        return self.out(y.transpose(1, 2).flatten(2)), (k[:, :, last:], v[:, :, last:])


class Talker(nn.Module):
    """A language model with a cache. One of its layers sees a window of eight tokens, if there is one."""

    def __init__(self, width: int = 64, layers: int = 2, words: int = 100, window: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList(
            Keeping(width, 4, 8 if window and i == 0 else None) for i in range(layers)
        )
        self.mlps = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)
        self.last = 1  # positions that get logits; 0: all of them

    def forward(
        self, ids: torch.Tensor, cache: list[tuple[torch.Tensor, torch.Tensor]] | None = None
    ) -> dict[str, object]:
        x, kept = self.table(ids), []
        for i, (layer, mlp) in enumerate(zip(self.layers, self.mlps, strict=True)):
            y, pair = layer(x, None if cache is None else cache[i])
            x = mlp(x + y)
            kept.append(pair)
        return {"logits": self.head(x[:, -self.last :]), "cache": kept}


class Told(Talker):
    """The same with logits of all positions and a configuration in transformers' words."""

    def __init__(self, width: int = 64, layers: int = 2, words: int = 100) -> None:
        super().__init__(width, layers, words)
        self.last = 0
        self.config = SimpleNamespace(
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=4,
            intermediate_size=width,
            vocab_size=words,
        )
