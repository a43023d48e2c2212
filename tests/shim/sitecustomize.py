# SPDX-License-Identifier: Apache-2.0
"""Lets torchvision be imported beside a torch whose operators it was not built for.

torchvision registers shape functions for its compiled operators when it is imported, and fails where its own
library could not be loaded (a wheel built for CUDA beside a CPU torch). With this directory on PYTHONPATH, or
where tools/setup put it into .venv because torchvision could not be imported there, the two operators
concerned are declared just before torchvision is imported, unless its own library loads and declares them:
torch ends the process where both do. Nothing happens in a process that does not import it.
"""

import importlib.machinery
import sys

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_kept = []  # the registration lasts as long as its library object


class BeforeTorchvision:
    """Finds nothing; it only notices that torchvision is about to be looked for."""

    def find_spec(self, fullname, path=None, target=None):
        file = library() if fullname == "torchvision" else None
        if file:
            sys.meta_path.remove(self)
            declare(file)


def library():
    """torchvision's own library; None of a stand-in that has none, which needs no operators."""
    from pathlib import Path

    spec = importlib.machinery.PathFinder.find_spec("torchvision")
    folders = (spec and spec.submodule_search_locations) or ()
    return next((file for folder in folders for file in Path(folder).glob("_C*.so")), None)


def loads(torch, file):
    """Whether it can be loaded here, as torchvision itself is about to do."""
    try:
        torch.ops.load_library(str(file))
    except (OSError, ImportError):
        return False
    return True


def declare(file):
    try:
        import torch

        if loads(torch, file):
            return
        _kept.append(torch.library.Library("torchvision", "DEF"))
        for schema in SCHEMAS:
            _kept[0].define(schema)
    except (ImportError, RuntimeError, AttributeError):
        pass  # there already, or a torch without the interface: torchvision itself will say what is wrong


if not any(type(finder).__name__ == "BeforeTorchvision" for finder in sys.meta_path):
    sys.meta_path.insert(0, BeforeTorchvision())
