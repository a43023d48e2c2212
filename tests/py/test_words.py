# SPDX-License-Identifier: Apache-2.0
"""The table of torch.nn words against torch itself: classes, attributes, owned tensors, arguments.

The tables are read as text, so that a word that torch does not know is found without building the extension.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

# Older versions lack some classes and attributes; the tables follow the newest.
pytestmark = pytest.mark.skipif(
    tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 13),
    reason="the tables follow PyTorch 2.13",
)

VOCAB = Path(__file__).parents[2] / "src" / "vocab"
NAME = re.compile(r'^NAME\("(\w+)", (\w+), (\w+)\)$', re.MULTILINE)
SIGNATURE = re.compile(r"^SIGNATURE\((\w+),(.*?)\)$(?=\n(?:SIGNATURE|\Z)|\n*\Z)", re.MULTILINE | re.DOTALL)
ROLE = re.compile(r"(ARG|SKIP|OWN|ATTR)\((\w+)(?:, (\w+))?\)")

WORDS = NAME.findall((VOCAB / "names_module.def").read_text())
LINES = SIGNATURE.findall((VOCAB / "signatures.def").read_text())
SIGNATURES = {name: ROLE.findall(line) for name, line in LINES}

SPECIAL: dict[str, tuple[Any, ...]] = {
    "AdaptiveAvgPool": (2,),
    "AdaptiveMaxPool": (2,),
    "AvgPool": (2,),
    "BatchNorm": (4,),
    "Bilinear": (2, 3, 4),
    "ChannelShuffle": (2,),
    "CircularPad": (1,),
    "ConstantPad": (1, 0.0),
    "Conv": (4, 4, 3),
    "ConvTranspose": (4, 4, 3),
    "CrossMapLRN": (3,),
    "Embedding": (5, 4),
    "EmbeddingBag": (5, 4),
    "Fold": (4, 2),
    "GRU": (3, 4),
    "GRUCell": (3, 4),
    "GroupNorm": (2, 4),
    "InstanceNorm": (4, 1e-5, 0.1, True, True),
    "LPPool": (2, 2),
    "LSTM": (3, 4),
    "LSTMCell": (3, 4),
    "LayerNorm": (4,),
    "Linear": (2, 3),
    "LocalResponseNorm": (3,),
    "MaxPool": (2,),
    "MaxUnpool": (2,),
    "MultiheadAttention": (8, 2, 0.0, True, True),
    "NonDynamicallyQuantizableLinear": (2, 3),
    "PixelShuffle": (2,),
    "PixelUnshuffle": (2,),
    "RMSNorm": (4,),
    "RNN": (3, 4),
    "RNNCell": (3, 4),
    "ReflectionPad": (1,),
    "ReplicationPad": (1,),
    "SyncBatchNorm": (4,),
    "Threshold": (0.1, 0.0),
    "Transformer": (8, 2, 1, 1, 16),
    "TransformerDecoder": (nn.TransformerDecoderLayer(8, 2), 1),
    "TransformerDecoderLayer": (8, 2),
    "TransformerEncoder": (nn.TransformerEncoderLayer(8, 2), 1, None, False),
    "TransformerEncoderLayer": (8, 2),
    "Unflatten": (1, (2, 2)),
    "Unfold": (2,),
    "ZeroPad": (1,),
}


def find_class(name: str) -> type[Any]:
    """The class that a word spells; one of them is not exported by torch.nn."""
    home = nn.modules.linear if name == "NonDynamicallyQuantizableLinear" else nn
    cls: type[Any] = getattr(home, name)
    return cls


def make(name: str) -> Any:
    """A small module of the class, with every optional tensor it can have."""
    if name.startswith("FractionalMaxPool"):
        return find_class(name)(2, output_size=2)
    return find_class(name)(*SPECIAL.get(re.sub(r"\dd$", "", name), ()))


def roles(signature: str, *types: str) -> list[str]:
    """What torch calls the roles of these types, in order."""
    return [theirs for type_, theirs, _ in SIGNATURES[signature] if type_ in types]


def test_tables_were_read() -> None:
    assert len(WORDS) > 100
    of_others = {"timm_attention"}  # classes of libraries that are not at hand, by their whole path
    assert {signature for _, _, signature in WORDS} | of_others == set(SIGNATURES)


@pytest.mark.parametrize(("name", "signature"), [(name, signature) for name, _, signature in WORDS])
@pytest.mark.filterwarnings("ignore")
def test_word_is_torchs(name: str, signature: str) -> None:
    if name == "Container":
        assert issubclass(nn.Container, nn.Module)
        return
    module = make(name)
    for attribute in roles(signature, "ATTR"):
        assert hasattr(module, attribute), attribute
    owned = set(module._parameters) | set(module._buffers)
    assert set(roles(signature, "OWN")) <= owned
    arguments = roles(signature, "ARG", "SKIP")
    if arguments and name != "Identity":
        assert list(inspect.signature(module.forward).parameters)[: len(arguments)] == arguments


def test_every_layer_of_torch_has_a_word() -> None:
    known = {name for name, _, _ in WORDS}
    without = {"Module", "DataParallel", "RNNBase", "RNNCellBase", "AdaptiveLogSoftmaxWithLoss"}
    for name, cls in inspect.getmembers(nn, inspect.isclass):
        if issubclass(cls, nn.Module) and not name.startswith("Lazy") and not re.search(r"Loss(2d)?$", name):
            assert name in known | without, name
