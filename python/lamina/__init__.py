# SPDX-License-Identifier: Apache-2.0
"""lamina: see every layer of a neural network.

``lamina.inspect(model, args, kwargs)`` runs a PyTorch model once and returns a :class:`Report` of its
layers: shapes, parameters, multiply-accumulates, operations and memory accesses. ``lamina.capture(model)``
does the same around your own code. ``lamina.summary``, ``crawl_module``, ``profile`` and
``clever_format`` are drop-in replacements for torchscan and thoplw; ``lamina.torchscan`` and
``lamina.thoplw`` hold the rest of those packages' names. ``lamina.InspectorGadgets`` replaces that of
torch_inspector. ``lamina.callbacks`` is for training loops.

Importing lamina imports nothing else. Every name below is loaded when it is first
used, and torch when a live model is first inspected.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know this name; importing typing takes ten times as long as all of this

if TYPE_CHECKING:
    from . import callbacks as callbacks
    from . import thoplw as thoplw
    from . import torch_inspector as torch_inspector
    from . import torchscan as torchscan
    from ._base.count import Count as Count
    from ._base.errors import LaminaError as LaminaError
    from ._compare import compare as compare
    from ._fit import fit as fit
    from ._inspect import Capture as Capture
    from ._inspect import capture as capture
    from ._inspect import inspect as inspect
    from ._lamina import Table as Table
    from ._results.compare import Comparison as Comparison
    from ._results.diff import Diff as Diff
    from ._results.fit import Fit as Fit
    from ._results.fit import Peak as Peak
    from ._results.recording import Recording as Recording
    from ._results.recording import open as open  # noqa: A004 - it is lamina.open
    from ._results.report import NoRuleError as NoRuleError
    from ._results.report import Report as Report
    from ._results.roof import Roof as Roof
    from ._results.roof import roof as roof
    from ._results.rows import Row as Row
    from ._results.rules import register as register
    from ._results.rules import registered as registered
    from ._results.rules import rules_file as rules_file
    from ._results.rules import unregister as unregister
    from ._results.saved import read as read
    from ._results.tokens import Tokens as Tokens
    from ._results.weights import WeightsDiff as WeightsDiff
    from ._results.weights import diff_weights as diff_weights
    from ._stage import stage as stage
    from ._tokens import tokens as tokens
    from ._watch import Watch as Watch
    from ._watch import watch as watch
    from .thoplw import LayersInfo as LayersInfo
    from .thoplw import clever_format as clever_format
    from .thoplw import profile as profile
    from .torch_inspector import InspectorGadgets as InspectorGadgets
    from .torchscan import crawl_module as crawl_module
    from .torchscan import summary as summary

    __version__: str

# The module that defines each public name. A name that is not here is a submodule.
_HOMES = {
    "Capture": "_inspect",
    "Comparison": "_results.compare",
    "Count": "_base.count",
    "Diff": "_results.diff",
    "Fit": "_results.fit",
    "InspectorGadgets": "torch_inspector",
    "LaminaError": "_base.errors",
    "LayersInfo": "thoplw",
    "NoRuleError": "_results.report",
    "Peak": "_results.fit",
    "Recording": "_results.recording",
    "Report": "_results.report",
    "Roof": "_results.roof",
    "Row": "_results.rows",
    "Table": "_lamina",
    "Tokens": "_results.tokens",
    "Watch": "_watch",
    "WeightsDiff": "_results.weights",
    "callbacks": "",
    "capture": "_inspect",
    "clever_format": "thoplw",
    "compare": "_compare",
    "crawl_module": "torchscan",
    "diff_weights": "_results.weights",
    "fit": "_fit",
    "inspect": "_inspect",
    "open": "_results.recording",
    "profile": "thoplw",
    "read": "_results.saved",
    "register": "_results.rules",
    "registered": "_results.rules",
    "roof": "_results.roof",
    "rules_file": "_results.rules",
    "stage": "_stage",
    "summary": "torchscan",
    "thoplw": "",
    "tokens": "_tokens",
    "torch_inspector": "",
    "torchscan": "",
    "unregister": "_results.rules",
    "watch": "_watch",
}

__all__ = [
    "Capture",
    "Comparison",
    "Count",
    "Diff",
    "Fit",
    "InspectorGadgets",
    "LaminaError",
    "LayersInfo",
    "NoRuleError",
    "Peak",
    "Recording",
    "Report",
    "Roof",
    "Row",
    "Table",
    "Tokens",
    "Watch",
    "WeightsDiff",
    "__version__",
    "callbacks",
    "capture",
    "clever_format",
    "compare",
    "crawl_module",
    "diff_weights",
    "fit",
    "inspect",
    "open",
    "profile",
    "read",
    "register",
    "registered",
    "roof",
    "rules_file",
    "stage",
    "summary",
    "thoplw",
    "tokens",
    "torch_inspector",
    "torchscan",
    "unregister",
    "watch",
]


def __getattr__(name: str) -> object:
    """Loads a public name at its first use (PEP 562)."""
    from importlib import import_module

    value: object
    if name == "__version__":
        value = import_module("._lamina", __name__).version()
    elif name in _HOMES:
        home = _HOMES[name]
        module = import_module("." + (home or name), __name__)
        value = getattr(module, name) if home else module
    else:
        raise AttributeError(f"module 'lamina' has no attribute {name!r}; it has {', '.join(__all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({name for name in globals() if name.startswith("_")} | set(__all__))
