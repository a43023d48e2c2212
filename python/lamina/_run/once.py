# SPDX-License-Identifier: Apache-2.0
"""Runs a live model once and restores it.

All state that inspection may change is saved and restored: the model itself (a snapshot taken in C), the
random number generators and the train/eval mode. Compiled code is bypassed and not changed. torch is only
taken from ``sys.modules``: a caller with a model has imported it.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _lamina
from .._base.errors import UsageError
from .._base.modules import modules, parameters
from .._base.terminal import progress
from .._guard.compiled import Compiled
from .._guard.generators import state_of_generators
from .._guard.gradients import (
    end_graphs,
    ended_at,
    ends_at,
    floats,
    graph_of,
    next_node,
    no_gradients_left,
    start_of,
    without_graph,
)
from .._observe.run import Run
from .._observe.support import watched
from .arguments import Arguments
from .capture import Opened, new_watch
from .provenance import provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from .._dry.optimizer import Maker
    from .._observe.support import Watched
    from .._observe.values import Checks
    from .repeat import Repeats

NO_BACKWARD = "no backward pass ran: the model returned no floating-point tensor that needs a gradient"
NOTHING = nullcontext()
# What DistributedDataParallel notes of the first step of a static graph, after which its reducer in C++ is in
# another state.
STATIC = "_static_graph_delay_allreduce_enqueued"


def run_once(
    root: Any,
    args: tuple[object, ...] | Callable[[], tuple[object, ...]],
    kwargs: Mapping[str, object] | None = None,
    *,
    mode: str | None = None,
    around: AbstractContextManager[object] | None = None,
    ops: bool | None = False,
    backward: bool = False,
    unfused: bool = False,
    dry: bool = False,
    time: Repeats | None = None,
    memory: bool = False,
    health: Checks | None = None,
    follow: bool = False,
    dtype: str | None = None,
    optimizer: Maker | None = None,
    made: Sequence[str] = (),
    about: Mapping[str, str] | None = None,
) -> Run:
    """One captured forward of ``root`` under ``no_grad``; afterwards everything is restored.

    ``ops`` watches operators too, None if they can be watched. ``backward`` runs with gradients and then
    back-propagates the sum of the floating-point outputs; ``unfused`` makes every layer run its own forward.
    ``dry`` computes nothing: every tensor is fake. ``time`` measures times, ``memory`` allocations;
    ``health`` checks values. ``follow``, for a dry run with ``ops``: records when memory is allocated and
    freed, as if all floats were ``dtype``; ``optimizer``: a step of it too. ``made``: how each input tensor
    was made up; ``about``: facts for the provenance that only the caller knows.
    ``args`` may be a function that makes them: its draws from the generators are undone too. What the forward
    changes of them is undone. An exception of the forward is kept in the result, not raised, so that a caller
    can show the layers that ran before it.
    """
    run = Run(root, health)
    how = _prepared(root, ops=ops, dry=dry, memory=memory, follow=follow)
    put_back = state_of_generators()
    wanted: Any = {"time": time is not None, "memory": memory, "health": health}
    watch, timed = new_watch(root, how=how, **wanted), None
    opened = Opened(watch, Compiled(), ops=how.ops, memory=memory)
    _tell_source(watch, made, provenance(about, dry=dry, backward=backward))
    special = mode is not None or around is not None or callable(args) or dry or backward
    snapshot = _snapshot(root, watch, plain=not special and not any(wanted.values()))
    given: Arguments | None = None
    try:
        _set_mode(root, mode, watch)
        set_up, shown = NOTHING if around is None else around, progress(_work(dry, follow, backward))
        said = NOTHING if time is not None and time.once else shown  # a thread would disturb a timed run
        with _modes(backward, real=backward or dry, unfused=unfused), set_up, said:
            given_now = args() if callable(args) else args
            given = Arguments(given_now, kwargs or {}, root, watch, snapshot.objects())
            back = Backward(watch, next_node(), dry, follow, optimizer) if backward else None
            if dry:
                from .._dry.mode import go_dry

                ready = go_dry(
                    run, root, snapshot, watch, given, follow=follow, dtype=dtype, backward=backward
                )
            else:
                ready = _made_ready(given, snapshot, watch, ops=how.ops, backward=backward)
            with ready as (passed, named):
                with opened:
                    run.error = call_root(root, passed, named, back, run)
                    run.alone = run.alone and watch.alone
                if dry:
                    run.model = opened.model()
                elif time is not None and not time.once and run.error is None:
                    from .repeat import measure

                    timed = measure(root, given, time, run, shown, backward=backward, like=watch)
        if not dry:
            run.model = opened.model()
        if timed is not None and run.model is not None:
            run.model.time_by(timed.model())
    finally:
        walked = [m for _, m in modules(root)] if _lamina.has_group() and not dry else []
        ran = {m: vars(m)[STATIC] for m in walked if STATIC in vars(m)}
        _restore(given, snapshot, watch, run, put_back)
        for module, value in ran.items():
            vars(module)[STATIC] = value
    run.note_left()
    return run


def _restore(
    given: Arguments | None,
    snapshot: _lamina.Snapshot,
    watch: _lamina.Capture,
    run: Run,
    generators: Callable[[], None],
) -> None:
    """Restores the model, the arguments and the generators; all of them also after a second Ctrl-C, which is
    raised in the end."""
    try:
        snapshot.wrote(watch.written())
        run.leave(snapshot.restore())
    except BaseException:
        snapshot.restore()
        raise
    finally:
        try:
            run.leave([] if given is None else given.put_back())
        except BaseException:
            if given is not None:
                given.put_back()
            raise
        finally:
            generators()


@contextmanager
def _made_ready(
    given: Arguments, snapshot: _lamina.Snapshot, watch: _lamina.Capture, *, ops: bool, backward: bool
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yields the arguments for a run that computes."""
    if ops:
        given.guard(watch)
    else:
        given.copy()
    for each in (snapshot, *given.inside) if backward else ():
        end_graphs(each, watch)
    yield given.given(without_graph)


def _snapshot(root: Any, watch: _lamina.Capture, *, plain: bool) -> _lamina.Snapshot:
    """A snapshot of the model. For a ``plain`` run no user code runs before the start, nor between finish()
    and restore()."""
    return watch.snapshot() if plain else _lamina.Snapshot(root)


def _tell_source(watch: Any, made: Sequence[str], facts: Mapping[str, str]) -> None:
    """Passes to the capture how its inputs were made, and its provenance."""
    for text in made:
        watch.made(text)
    watch.provenance(facts)


def _work(dry: bool, follow: bool, backward: bool) -> str:
    """The description of a run for the line of progress."""
    if follow:
        return f"predicting the memory of a {'training step' if backward else 'forward pass'}"
    return "following the shapes" if dry else "running the model"


def _set_mode(root: Any, mode: str | None, watch: _lamina.Capture) -> None:
    """Sets the mode of a model if it differs: models may do more than set the flag, such as clear their
    caches. A frozen program of torch.jit has no flag, and one of torch.export can't change its mode."""
    train = mode == "train"
    if mode is None or all(getattr(module, "training", train) == train for module in root.modules()):
        return
    try:
        root.train(train)
    except NotImplementedError:
        watch.note(f"its mode could not be set to {mode}: an exported program keeps that of its export")


@contextmanager
def _modes(grad: bool, *, real: bool, unfused: bool) -> Iterator[None]:
    """torch's modes around a run; ``real``: tensors may need gradients, also inside an inference mode."""
    torch = sys.modules["torch"]
    outer = torch.inference_mode(mode=False) if real else NOTHING
    with outer, torch.set_grad_enabled(bool(grad)), _no_fast_path() if unfused else NOTHING:
        _lamina.aside(True)  # noqa: FBT003 - it is no step of a recording
        try:
            yield
        finally:
            _lamina.aside(False)  # noqa: FBT003


@contextmanager
def _no_fast_path() -> Iterator[None]:
    """Attention layers in eval mode run layer by layer, as if they had hooks."""
    torch = sys.modules["torch"]
    mha = torch.backends.mha
    before = mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        mha.set_fastpath_enabled(before)


def _prepared(root: Any, *, ops: bool | None, dry: bool, memory: bool, follow: bool) -> Watched:
    """The way in which operators are watched. Raises if a request is impossible, before any state changes."""
    how = watched(ops)
    if dry and memory:
        raise UsageError("a dry run allocates nothing, so there is no memory to tell; leave one of them out")
    if dry:
        from .._dry.mode import check

        check(root, follow=follow)
    return how


class Backward(NamedTuple):
    """A backward pass after a forward: the capture that watches it, the number of the first node that this
    thread made since the run began, whether it is that of a dry run, whether the gradients it begins with
    have their own memory, and the optimizer of which a step follows in a dry run, or None."""

    watch: _lamina.Capture
    first: int
    dry: bool = False
    whole: bool = False
    optimizer: Maker | None = None


def call_root(
    root: Any, args: tuple[object, ...], kwargs: Mapping[str, object], back: Backward | None, run: Run
) -> BaseException | None:
    """One forward, and the backward if there is one to do; returns their exception."""
    try:
        result = root(*args, **kwargs)
    except BaseException as error:
        if back is not None:
            back.watch.no_backward()
        return error
    try:
        if back is not None:
            run.no_backward = not _go_back(root, result, back, run)
    except BaseException as error:
        assert back is not None
        back.watch.no_backward()
        back.watch.backward_raised()
        return error
    return None


def _is_whole(parameter: Any) -> bool:
    """True for a tensor that receives gradients itself, not through the tensors that it wraps."""
    if not (parameter.is_leaf and parameter.requires_grad):
        return False
    named = getattr(parameter, "__tensor_flatten__", None)
    try:
        parts = [] if named is None else [getattr(parameter, name) for name in named()[0]]
    except Exception:  # a class that does not name its parts
        return False
    return not any(getattr(part, "requires_grad", False) for part in parts)


def _name(root: Any, tensor: Any) -> str:
    """A parameter's path; of any other tensor its shape."""
    for path, module in modules(root):
        for name, parameter in module._parameters.items():
            if parameter is tensor:
                return f"{path}.{name}" if path else name
    return f"a tensor of the shape {tuple(tensor.shape)}"


@contextmanager
def _received(back: Backward) -> Iterator[None]:
    """In the block gradients arrive in a dry run as they do in a real one."""
    if not back.dry:
        yield
        return
    from .._dry.hooks import hooks_of_nodes
    from .._dry.running import running

    buckets = running().buckets
    if not back.whole:
        buckets.tell()
    with hooks_of_nodes(), buckets.receive() if back.whole else NOTHING:
        yield


def _go_back(root: Any, result: object, back: Backward, run: Run) -> bool:
    """Back-propagates the sum of the floating-point tensors in ``result`` and restores every gradient. False
    if none has a gradient."""
    torch, watch = sys.modules["torch"], back.watch
    watch.pause(True)  # noqa: FBT003 - its preparation is not the model's work
    ends = floats(result)
    if not ends:
        watch.no_backward()
        watch.note(NO_BACKWARD)
        return False
    own = list(parameters(root))
    run.alone = run.alone and watch.alone
    graph = graph_of(ends, back.first, alone=run.alone)
    for node in graph.before:
        watch.note(ends_at(f"the result of {node.name()}"))
    with no_gradients_left([*own, *graph.leaves], run.left, partial(_name, root)), ended_at(graph):
        starts = start_of(ends, whole=back.whole)
        with _received(back):
            watch.pause(False)  # noqa: FBT003
            torch.autograd.backward(ends, starts, retain_graph=bool(graph.before) or None)
            watch.pause(True)  # noqa: FBT003
        del starts
        if back.optimizer is not None:
            from .._dry.optimizer import follow_step

            follow_step(root, back.optimizer)
        watch.memory_gradients()
        came = {id(p): (p, p.grad is not None) for p in own}
        watch.gradients(
            {key: (p, is_there) for key, (p, is_there) in came.items() if is_there or _is_whole(p)}
        )
    return True
