# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel in a dry run. Its reducer is C++ code that holds the real parameters and talks to
other processes; a dry run does without it, and makes the memory that it keeps: buckets that gradients are
copied to, or that they are views of."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .._base.modules import modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# True once the first step of a wrapper with a static graph is over; others have no such attribute.
FIRST = "_static_graph_delay_allreduce_enqueued"


NOT_REDUCED = (
    "the backward pass of a real run copies gradients and adds them up over processes, for "
    "DistributedDataParallel; a dry run does neither, and FLOPs, DMAs and bytes lack it"
)


class _Still:
    """Stands for a reducer, or its logger: each method does nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _nothing


def _nothing(*_: object, **__: object) -> None:
    return None


class Buckets:
    """The buckets of all wrappers in a model, while it runs dry."""

    def __init__(self, run: Any, root: Any) -> None:
        parallel: Any = getattr(sys.modules.get("torch.nn.parallel"), "DistributedDataParallel", ())
        self._run = run
        self._wrappers = [m for _, m in modules(root) if isinstance(m, parallel)]
        self._views: list[tuple[Any, Any]] = []  # parameters whose gradients are views, with those
        self._kept: list[Any] = []

    @contextmanager
    def open(self, *, follow: bool) -> Iterator[None]:
        """In the block no reducer works; ``follow``: there are buckets."""
        still = {"reducer": _Still(), "logger": _Still(), FIRST: True}  # as from the second step on
        mine = [m.__dict__ for m in self._wrappers]
        before = [(own, {name: own[name] for name in still if name in own}) for own in mine]
        try:
            for wrapper in self._wrappers if follow else ():
                self._fill(wrapper)
            for own, had in before:
                own.update({name: still[name] for name in had})
            yield
        finally:
            for own, had in before:
                own.update(had)
            self._views.clear()
            self._kept.clear()

    def tell(self) -> None:
        """Notes what a backward pass of a real run does for the wrappers."""
        if self._wrappers:
            self._run.watch.note(NOT_REDUCED)

    def _fill(self, wrapper: Any) -> None:
        """Makes the buckets of a wrapper, as many bytes for each type as its gradients have."""
        torch, core = self._run.torch, self._run.core
        sparse = {
            id(layer.weight)
            for layer in wrapper.module.modules()
            if isinstance(layer, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and layer.sparse
        }
        every = [
            p
            for name, p in wrapper.module.named_parameters()
            if p.requires_grad and name not in wrapper.parameters_to_ignore and id(p) not in sparse
        ]
        core.before("gradient")
        try:
            for dtype in dict.fromkeys(p.dtype for p in every):
                of_type = [p for p in every if p.dtype == dtype]
                sizes = [p.numel() for p in of_type]
                together = sum(sizes)  # not a count: of elements
                with torch._C._DisableTorchDispatch():
                    bucket = core.like(torch.empty(together, dtype=dtype, device="meta"))
                self._kept.append(bucket)
                if wrapper.gradient_as_bucket_view:
                    self._views += zip(of_type, self._cut(bucket, of_type, sizes), strict=True)
            if wrapper.find_unused_parameters or wrapper.static_graph:
                for _ in range(2):  # which parameters were used
                    with torch._C._DisableTorchDispatch():
                        used = torch.empty(len(every), dtype=torch.int32, device="meta")
                        self._kept.append(core.like(used))
        finally:
            core.before(None)
        if why := _unknown(wrapper):
            core.more(why)

    def _cut(self, bucket: Any, parameters: list[Any], sizes: list[int]) -> list[Any]:
        with self._run.torch._C._DisableTorchDispatch():
            parts = bucket.split(sizes)
            views = [part.view(p.shape) for part, p in zip(parts, parameters, strict=True)]
        return [self._run._as(self._run.fake, view) for view in views]

    @contextmanager
    def receive(self) -> Iterator[None]:
        """In the block, a backward pass leaves gradients in the buckets that they are views of."""
        handles = []
        for parameter, view in self._views:

            def move(parameter: Any, view: Any = view) -> None:
                parameter.grad = view

            handles.append(parameter.register_post_accumulate_grad_hook(move))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _unknown(wrapper: Any) -> str | None:
    """Why it may take more memory than that of its buckets; None: it does not."""
    logger = wrapper.logger
    data = logger._get_ddp_logging_data().strs_map if logger is not None else {}
    if getattr(wrapper, "_comm_hooks", None) or data.get("comm_hook"):
        return "what the communication hook of DistributedDataParallel takes is not known"
    if getattr(wrapper, "mixed_precision", None) is not None:
        return "what DistributedDataParallel takes for mixed precision is not known"
    if getattr(wrapper, "_delay_all_reduce_params", None):
        return "what DistributedDataParallel takes for parameters that it reduces late is not known"
    return None
