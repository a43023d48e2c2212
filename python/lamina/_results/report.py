# SPDX-License-Identifier: Apache-2.0
"""The report of one capture under one convention: totals, rows, and the tables that the core writes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TextIO

from .. import _lamina
from .._base.check import check_convention, check_roof, check_text, check_whole, describe_object
from .._base.count import Count, from_core
from .._base.errors import LaminaError, UsageError
from .._base.files import save_text
from .._base.modules import core_path, no_layer
from .._base.terminal import takes_unicode, terminal_width, wants_color
from .graph import Graph
from .growth import Growth, growth_from_core
from .output import core_options
from .rows import Row, Work, value_of
from .rules import OwnRules
from .time import Speed, row_time, times
from .tokens import Tokens

if TYPE_CHECKING:
    from .compare import Comparison
    from .diff import Diff
    from .fit import Again, Fit
    from .health import Health
    from .memory import Memory
    from .picture import Picture
    from .roof import Roof
    from .rules import OwnRule
    from .time import Times


class Report:
    """The layers of a model in one capture, counted under one convention.

    ``print(report)`` is a table as wide as the terminal; a notebook shows the verdict, the shares of the
    MACs, and the modules.
    ``macs``, ``flops``, ``dmas`` and ``params`` are the totals; ``rows`` is the table as data.
    """

    def __init__(
        self,
        model: _lamina.Model,
        convention: str | None = None,
        *,
        released: bool = False,
        custom: Any = None,
        backwards: bool = False,
        own: Sequence[OwnRule] = (),
        **shown: Any,
    ) -> None:
        self._model = model
        self._released = released
        self._custom = custom
        self._backwards = backwards
        self._convention = convention
        self._first = own
        self._own = (None, None) if released else OwnRules.for_core(own)
        self._counted: _lamina.Costs | None = None
        if convention is not None or released or custom is not None or self._own[0]:
            self._counted = self._count()  # it may raise, and a program's functions see their objects as now
        self._rows: list[Row] | None = None
        self._memory: Memory | None = None
        self._health: Health | None = None
        self._shown: dict[str, Any] = shown
        if shown.get("memory"):
            shown["memory"] = model.memory_measured()  # the model may lack it
        self._again: Again | None = None  # if lamina itself ran the model

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Report:
        """Reads a file of :meth:`to_json`: totals, rows, gaps, notes, provenance, tables and pictures.

        It prints what the report of the run printed, with everything that was measured. What needs the run
        itself, such as :meth:`under`, :meth:`graph` and :meth:`fit`, raises ValueError.

        Raises:
            OSError: the file can't be read.
            ValueError: it is not such a file; the sentence says where and what is wrong.
        """
        from .saved import load

        return load(path)

    @property
    def _costs(self) -> _lamina.Costs:
        """The capture, counted when a number is first read: it does not change any more. Counting takes a
        tenth of what an inspection costs beside the run (`make bench`, mobilenet_v3_small)."""
        if self._counted is None:
            self._counted = self._count()
        return self._counted

    def _count(self) -> _lamina.Costs:
        costs = self._model.costs(self._convention, self._released, self._custom, *self._own)
        if self._backwards:
            costs.rf_backwards()
        return costs

    # -- totals ----------------------------------------------------------------------------------------------

    @property
    def macs(self) -> Count:
        """Multiply-accumulates of everything that ran."""
        return from_core(self._costs.total("macs"))

    @property
    def flops(self) -> Count:
        """Floating point operations of everything that ran; the convention says how they relate to MACs."""
        return from_core(self._costs.total("flops"))

    @property
    def dmas(self) -> Count:
        """Elements, not bytes, read and written."""
        return from_core(self._costs.total("dmas"))

    @property
    def bytes_read(self) -> Count:
        """Bytes read, in each tensor's own type; unknown under a convention that does not count them."""
        return from_core(self._costs.total("bytes_read"))

    @property
    def bytes_written(self) -> Count:
        """Bytes written; see :attr:`bytes_read`."""
        return from_core(self._costs.total("bytes_written"))

    @property
    def bytes(self) -> Count:
        """Bytes read and written together."""
        return from_core(self._costs.total("bytes"))

    @property
    def intensity(self) -> float | None:
        """Arithmetic intensity, FLOPs a byte read or written; None unless both are exact."""
        intensity: float | None = self._costs.totals()["intensity"]
        return intensity

    @property
    def effective_macs(self) -> Count:
        """``macs`` without masked scores of attention: by a causal flag, or by a mask in this machine's
        memory, whose values are read. If they can't be read, the count is a lower bound."""
        return from_core(self._costs.total("effective_macs"))

    @property
    def effective_flops(self) -> Count:
        """``flops`` without masked scores of attention; see :attr:`effective_macs`."""
        return from_core(self._costs.total("effective_flops"))

    @property
    def backward(self) -> Work:
        """The cost of backward passes; unknown if none ran, or under a convention that counts calls and not
        operators."""
        return self._phase("backward")

    @property
    def recompute(self) -> Work:
        """Forward work that a backward pass repeats, as activation checkpointing does; unknown if no backward
        pass ran."""
        return self._phase("recompute")

    def _phase(self, phase: Literal["backward", "recompute"]) -> Work:
        totals = self._costs.totals(phase)
        return Work(**{name: value_of(value) for name, value in totals.items()})

    def _model_macs(self, *, repeated: bool = False) -> Count:
        """The MACs of the model's forward and backward, for its utilization; ``repeated``: with those that a
        backward pass repeats."""
        return from_core(self._costs.model_macs(repeated))

    @property
    def memory(self) -> Memory:
        """The memory of the run, layer by layer.

        Raises:
            ValueError: it was not measured; ``lamina.inspect(model, args, memory=True)`` measures it.
        """
        if self._memory is None:
            from .memory import Memory

            self._memory = Memory(self._model)
        return self._memory

    @property
    def params(self) -> Count:
        """Elements of all parameters of the model, shared ones once, with weights that torch's quantised
        layers keep packed."""
        return from_core(self._costs.params()["params"])

    @property
    def local_params(self) -> Count:
        """This process's part of :attr:`params` if they are sharded over several; else all of them."""
        return from_core(self._costs.params()["local_params"])

    @property
    def parameters(self) -> dict[str, Count]:
        """Parameters and buffers of the whole model in elements and bytes, as the core names them:
        ``param_bytes`` are those of the memory in which parameters are stored, ``logical_bytes`` those of
        their shapes and types, ``local_bytes`` what this process holds of sharded ones."""
        return {name: from_core(pair) for name, pair in self._costs.params().items()}

    # -- contents --------------------------------------------------------------------------------------------

    @property
    def convention(self) -> str:
        """The convention's name."""
        return self._costs.convention

    @property
    def rows(self) -> list[Row]:
        """Every row as data, in the convention's order."""
        if self._rows is None:
            rows = self._costs.rows()
            for fields in rows:
                fields["time"] = row_time(fields["time"])
            self._rows = [Row(fields) for fields in rows]
        return list(self._rows)

    @property
    def unruled(self) -> dict[str, int]:
        """Types of layers without a rule in the convention, each with the number of its calls."""
        return {name: calls for name, calls, *_ in self._costs.unruled()}

    @property
    def unruled_ops(self) -> dict[str, int]:
        """Operators without a rule in the convention, each with the number of its runs."""
        return dict(self._costs.unruled_ops())

    @property
    def per(self) -> dict[str, Growth]:
        """How the totals of the forward grow with each size that a file leaves open, by the size's name for
        ``sizes`` of :func:`lamina.read`: ``report.per["batch"].numbers["macs"].each``. Empty for a model that
        was run, and for a file without such sizes. docs/files.md says when a growth is not known."""
        return {fields["size"]: growth_from_core(fields) for fields in self._costs.growth()}

    @property
    def gaps(self) -> list[str]:
        """The reasons why a total is not exact, one sentence each; empty if every total is."""
        return list(self._costs.gaps())

    @property
    def notes(self) -> list[str]:
        """Other notes about this capture, one sentence each."""
        return list(self._model.notes())

    @property
    def provenance(self) -> Mapping[str, str]:
        """How, where and when the run was made, as texts by name, such as ``provenance["torch"]``;
        docs/json.md lists the names. Unknown facts are left out. The mapping is read-only."""
        return MappingProxyType(self._model.provenance())

    def under(self, convention: str) -> Report:
        """Returns the same capture counted under another convention.

        Raises:
            ValueError: there is no such convention; the sentence lists the known ones.
        """
        check_convention(convention)
        report = Report(self._model, convention, own=self._first, **self._shown)
        report._again = self._again
        return report

    def compare(self, *conventions: str, flops: bool = False, backward: bool = False) -> Comparison:
        """Returns the same capture under several conventions side by side, with the causes of each
        difference. Default: ``exact``, ``torch`` and ``fvcore``, and of an ONNX file all that can count it;
        ``"all"`` is every tool. It needs a capture that watched operators (``ops=True``). ``flops`` explains
        FLOPs instead of MACs, ``backward`` compares the backward pass instead of the forward.

        Raises:
            ValueError: there is no such convention, or no operators were watched.
        """
        from .compare import Comparison

        return Comparison(self._model, conventions, flops=flops, backward=backward)

    def diff(self, other: Report | str | os.PathLike[str], *, by: str | None = None) -> Diff:
        """Returns the differences between this report and ``other``, the later one: modules that were added,
        removed, changed or renamed, and the totals.

        Args:
            other: another report, or the path of one that :meth:`to_json` saved, or of a recording.
            by: the metric that modules are sorted by: ``"macs"`` (the default; the first that differs if MACs
                do not), ``"params"``, ``"flops"``, ``"bytes"``, ``"time"``, ``"memory"``, ``"peak"``, ...

        Raises:
            ValueError: not both have the metric ``by``; the sentence lists those that both have.
            OSError: the file can't be read.
            LaminaError: it is no saved report and no recording.
        """
        from .diff import Diff

        return Diff(self, other, by=by)

    def sees(self, path: str, *element: int) -> list[tuple[int, int] | None]:
        """Returns the input positions that one element of the first output of the layer at ``path`` depends
        on.

        ``element`` is its index along each axis in ``row.rf_axes``, in that order. The result is the first
        and last position along each axis, clipped at the borders, None for no position. With dilation some
        positions between are not read. If ``at_most`` is true, the element may depend on fewer. This needs a
        capture that watched operators.
        Raises:
            KeyError: no row has that path, or its receptive field is unknown.
            ValueError: an operator maps positions in an unknown way, or ``element`` does not have one index
                for each axis.
            IndexError: the output has no such element.
        """
        for index, row in enumerate(self.rows):
            if row["path"] != core_path(path) or row["rf_axes"] is None:
                continue
            axes = row["rf_axes"]
            if len(element) != len(axes):
                raise ValueError(
                    f"{path!r} follows {len(axes)} axes and the element has {len(element)} indices"
                )
            for axis in axes:
                if axis["why"]:
                    raise ValueError(f"what {path!r} sees is not known: {axis['why']}")
            spans = [self._costs.rf_seen(index, i, at) for i, at in enumerate(element)]
            # If the field has no position along one axis of an input, it has no element of that input.
            blind = {axis["input"] for axis, (first, last) in zip(axes, spans, strict=True) if last < first}
            return [None if axis["input"] in blind else s for axis, s in zip(axes, spans, strict=True)]
        raise KeyError(
            f"the graph has no layer at {path!r}: it was not called, or operators were not watched, "
            "which ops=True does"
        )

    def why(self, path: str) -> Whys:
        """Explains the numbers of the layer at ``path``: a list of one dict for each number, with the formula
        and its values, which prints as ``lamina why`` does. If operators are counted, each of them follows
        with its name as the note, and then the same for the backward and for recomputation. ``phase`` names
        the phase, ``operator`` the operator (None: the row), ``times`` is the number of equal operators, and
        ``words`` describes that kind of operation.
        ``facts`` lists the facts whose values were substituted: their name in the formula, value and meaning.
        The path of the model itself is "" or ".".

        Raises:
            KeyError: no row has that path.
        """
        for index, row in enumerate(self.rows):
            if row["path"] == core_path(path):
                lines = ({k: value_of(v) for k, v in line.items()} for line in self._costs.why(index))
                return Whys(lines, self._costs.why_text(index))
        raise no_layer(path, (row["path"] for row in self.rows))

    def graph(self) -> Graph:
        """Returns the data-flow graph, as data and as DOT.

        Raises:
            ValueError: no operators were watched; ``lamina.inspect(model, args, ops=True)`` watches them.
        """
        self._need_ops("the graph")
        return Graph(self._model)

    def fit(
        self,
        *,
        batch: int | None = None,
        optimizer: str | Callable[[list[Any]], Any] | None = None,
        dtype: Any = None,
        step: bool = True,
    ) -> Fit:
        """Predicts the peak memory of a forward pass and of a training step by a dry run of the model with
        the arguments of its first call; see :func:`lamina.fit`.

        If memory was measured, and neither ``batch`` nor ``dtype`` is given, the measured peak is compared
        with the prediction, with the error in per cent. A forward pass's peak is compared if it ran in eval
        mode without gradients (existing gradients of parameters are left out). A step's peak is compared if
        your own code ran forward and backward in train mode in ``lamina.capture``, without gradients before
        it, and with the optimizer's state if ``optimizer`` has one. Otherwise :attr:`lamina.Fit.apart` says
        why not.

        Raises:
            ValueError: the model no longer exists or was not called, or the report was loaded from a file;
                ``lamina.fit(model, args)`` needs no report.
        """
        if self._again is None:
            raise ValueError(
                "this report does not know what its model was called with; use lamina.fit(model, args)"
            )
        fit = self._again.fit(batch=batch, optimizer=optimizer, dtype=dtype, step=step)
        same = batch is None and dtype is None and self._model.memory_measured()
        return self._again.beside(fit, self.memory, self._model) if same else fit

    def _need_ops(self, what: str) -> None:
        if not self._model.ops_seen():
            raise UsageError(
                f"{what} needs operators, and this run watched layers only; "
                "lamina.inspect(model, args, ops=True) watches both"
            )

    @property
    def unused(self) -> dict[str, str]:
        """Paths of modules that were never called, or have a result that reaches no output of the model, each
        with the reason.

        Raises:
            ValueError: no operators were watched; ``lamina.inspect(model, args, ops=True)`` watches them.
        """
        self._need_ops("report.unused")
        return dict(self._model.findings()["unused"])

    @property
    def no_gradient(self) -> dict[str, str]:
        """Names of parameters that get no gradient from the floating-point outputs, each with the reason.

        Raises:
            ValueError: no operators were watched; ``lamina.inspect(model, args, ops=True)`` watches them.
        """
        self._need_ops("report.no_gradient")
        return dict(self._model.findings()["no_gradient"])

    @property
    def time(self) -> Times:
        """The times, layer by layer and run by run.

        Raises:
            ValueError: they were not measured; ``lamina.inspect(model, args, time=True)`` measures them.
        """
        return times(self._measured_times())

    def _measured_times(self) -> dict[str, Any]:
        times = self._costs.times()
        if times is None:
            raise UsageError("times were not measured; lamina.inspect(model, args, time=True) measures them")
        return times

    @property
    def health(self) -> Health:
        """Where NaN and Inf come from.

        Raises:
            ValueError: values were not checked; ``lamina.inspect(model, args, health=True)`` checks them.
        """
        from .health import health_of

        if self._health is None:
            self._health = health_of(self._model)
        return self._health

    @property
    def tokens(self) -> Tokens | None:
        """A language model's calls as prefill and decode steps, in tokens. None if the root was not given
        token ids that a table reads, or if operators were not counted."""
        with suppress(UsageError):
            return Tokens(_lamina.tokens(self._costs, None, None, "", (0, 0, 0), (False, False, False)))
        return None

    def speed(self, roof: Roof | None = None, *, inside: bool = False) -> list[Speed]:
        """Returns the speed of each row's own work and its limit, relative to ``roof``: by default this
        machine's, which is measured once. A row that exceeds the roof raises it. It needs times, and a
        convention that counts FLOPs and bytes: ``lamina.inspect(model, args, time=True)``. Work on a GPU is
        timed by the GPU's clock, and its limit is known only if you give the GPU's ``roof``. ``inside``: the
        speed of each row together with the calls inside it, also for containers.

        Raises:
            ValueError: times were not measured.
        """
        check_roof(roof)
        measured = self._measured_times()
        if roof is None and measured["device"] is None:
            from .roof import roof as of_this_machine

            roof = of_this_machine()
        limits = (roof.flops, roof.bytes) if roof is not None else (0.0, 0.0)
        return [Speed(*speed) for speed in self._costs.speeds(*limits, inside)]

    def failure(self) -> str | None:
        """Returns the layer that raised: its path, its type and its input shapes; None if none did."""
        return self._costs.failure()

    # -- tables ----------------------------------------------------------------------------------------------

    def _write(self, **options: Any) -> str:
        given = {**self._shown, **options}
        wanted, old = core_options(given, options)
        if wanted.get("format") == "html":
            return self.to_html(roof=given.get("roof"))
        costs, depth = self._costs, wanted.get("max_depth")
        if depth is not None and str(wanted.get("layout", "")).startswith("torchscan"):
            costs = self._count()  # new costs: torchscan's tables sum up deeper rows, which changes them
            costs.aggregate(depth)
        return costs.write(wanted, old)

    def _text(self, **options: Any) -> str:
        return self._write(**{"width": terminal_width(), **options}).removesuffix("\n")

    def __str__(self) -> str:
        return self._text()

    def __repr__(self) -> str:
        return self._text()

    def _repr_html_(self) -> str:
        return self._page(part=True)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """The output in a notebook: the verdict, the icicle of the shares, and the modules."""
        return {"text/plain": str(self), "text/html": self._repr_html_()}

    def show(self, **options: Any) -> None:
        """Prints the table.

        Options: ``width``, ``depth``, ``color``, ``ascii``, ``exact`` (full digits), ``expand`` (no folding
        of equal siblings), ``by`` (the column whose share is ``%``: ``"macs"``, ``"flops"``, ``"params"``,
        ``"time"``, ...), ``bars`` (False: no bar behind it, in colour), ``sort`` (a column: a list of layers
        instead of the tree, the largest first), ``rows`` (the length of that list),
        ``why`` (every reason why a total is not complete, and all notes),
        ``bytes`` (elements moved, bytes read and written, and FLOPs a byte), ``time``, ``memory``, ``roof``
        (of :func:`lamina.roof`: the speed of each row relative to it), ``receptive_field``,
        ``effective_rf_stats``, ``layout``, ``format``. By default colour and characters follow the terminal,
        ``NO_COLOR`` and ``FORCE_COLOR``.

        Raises:
            TypeError: there is no such option.
            ValueError: the convention has nothing to show for it.
        """
        look = {"color": wants_color(sys.stdout), "ascii": not takes_unicode(sys.stdout), "bars": True}
        sys.stdout.write(self._text(**look | options) + "\n")

    def to_csv(
        self, path: str | os.PathLike[str] | None = None, *, overwrite: bool = False, **options: Any
    ) -> str:
        """Returns the rows as CSV with plain integers, and writes them to ``path`` if it is given.

        Raises:
            FileExistsError: the file exists and ``overwrite`` is not True.
        """
        return self._save("csv", path, options, overwrite=overwrite)

    def to_json(
        self, path: str | os.PathLike[str] | None = None, *, overwrite: bool = False, **options: Any
    ) -> str:
        """Returns the report as JSON with a schema number; see :meth:`to_csv`. A file also gets the graph and
        the formulas, so that ``lamina report FILE`` shows all that :meth:`to_html` does but a language model
        in tokens; ``page=True`` or ``False`` overrides this."""
        options = {"page": path is not None, **options}
        return self._save("json", path, options, overwrite=overwrite)

    def to_markdown(
        self, path: str | os.PathLike[str] | None = None, *, overwrite: bool = False, **options: Any
    ) -> str:
        """Returns the table in Markdown; see :meth:`to_csv`."""
        return self._save("md", path, options, overwrite=overwrite)

    def to_html(
        self,
        path: str | os.PathLike[str] | TextIO | None = None,
        *,
        overwrite: bool = False,
        roof: Roof | None = None,
        before: Report | str | os.PathLike[str] | None = None,
    ) -> str:
        """Returns all results as one HTML file for a browser: verdict, modules, the icicle of the shares,
        memory over time, the machine's limits, the graph, and how they were measured. It needs no network;
        see :meth:`to_csv`.
        Args:
            path: the file to write too; an open text file may be given.
            roof: from :func:`lamina.roof`, with which speeds are compared.
            before: another report, or the path of one that :meth:`to_json` saved: the page then shows the
                changes since.

        Raises:
            FileExistsError: the file exists and ``overwrite`` is not True.
            OSError: ``before`` can't be read.
            LaminaError: ``before`` is no saved report.
        """
        text = self._page(roof, before)
        if path is None or isinstance(path, str | os.PathLike):
            return save_text(path, text, overwrite=overwrite)
        path.write(text)
        return text

    def _page(
        self,
        roof: Roof | None = None,
        before: Report | str | os.PathLike[str] | None = None,
        *,
        part: bool = False,
    ) -> str:
        check_roof(roof)
        roof = self._shown.get("roof") if roof is None else roof
        limits = (0.0, 0.0) if roof is None else (roof.flops, roof.bytes)
        was = None if before is None else source_of(before, "before")
        return _lamina.page(self._source(), self._failed(), *limits, was, part)

    def _source(self) -> Any:
        """The source of a page: costs, or the name of a file."""
        return self._costs

    def _failed(self) -> str | None:
        return self.failure()

    def to_trace(
        self, path: str | os.PathLike[str] | None = None, *, overwrite: bool = False, **options: Any
    ) -> str:
        """Returns a timeline of each thread as Chrome's trace events, for https://ui.perfetto.dev and
        ``chrome://tracing``; see :meth:`to_csv`. It has backward passes if their nodes or operators were
        watched.

        Raises:
            ValueError: nothing has a time, as in a dry run.
        """
        return self._save("trace", path, options, overwrite=overwrite)

    def to_speedscope(
        self, path: str | os.PathLike[str] | None = None, *, overwrite: bool = False, **options: Any
    ) -> str:
        """Returns the same for https://www.speedscope.app; see :meth:`to_trace`."""
        return self._save("speedscope", path, options, overwrite=overwrite)

    def plot(
        self,
        kind: Literal["icicle", "graph", "memory", "roofline"],
        *,
        by: str | None = None,
        backward: bool = False,
        width: int = 0,
        roof: Roof | None = None,
    ) -> Picture:
        """Returns a picture of the model as SVG.

        ``"icicle"``: the tree of modules, each box as wide as its share. ``"graph"``: the data flow between
        the modules of the top level. ``"memory"``: memory in use over time, and the peak. ``"roofline"``: the
        speed of each layer and the machine's limits.
        Args:
            by: the number that an icicle or a graph shows: ``"macs"`` (the default; ``"params"`` if there are
                no MACs), ``"params"``, ``"param_bytes"``, ``"flops"``, ``"bytes"``, ``"time"``, ``"memory"``
                (allocated by the forward) or ``"peak"`` (held at the peak).
            backward: the backward's numbers are added to the forward's.
            width: units of the picture; 0: 1008. Ignored by a graph, whose width follows from its nodes.
            roof: for a roofline; by default this machine's, which is measured once.
        Raises:
            ValueError: there is no such picture, or its numbers were not measured: memory by ``memory=True``
                and times by ``time=True`` of :func:`lamina.inspect`.
        """
        from .picture import Picture

        check_text("kind", kind, "icicle")
        check_text("by", by, "macs")
        check_whole("width", width, least=0)
        check_roof(roof)
        if kind == "roofline" and roof is None and self._costs.times() is not None:
            from .roof import roof as of_this_machine

            roof = of_this_machine()
        limits = (roof.flops, roof.bytes) if roof else (0.0, 0.0)
        return Picture(kind, self._costs.plot(kind, width, by, backward, *limits))

    def _save(
        self, kind: str, path: str | os.PathLike[str] | None, options: dict[str, Any], *, overwrite: bool
    ) -> str:
        return save_text(path, self._write(**{**options, "format": kind}), overwrite=overwrite)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Report holds its capture and can't be pickled; keep report.to_json() or report.rows"
        )


class Whys(list[dict[str, Any]]):
    """The explanations of a layer's numbers, as dicts; they print as ``lamina why`` prints them, also in a
    notebook."""

    def __init__(self, lines: Iterable[dict[str, Any]], text: str) -> None:
        super().__init__(lines)
        self._text = text

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The output in IPython, which prints the items of a list without asking the list."""
        del cycle
        printer.text(self._text)


def source_of(report: object, name: str) -> Any:
    """What the core reads of a report, or of the name of a file.

    Raises:
        TypeError: ``report``, which the sentence calls ``name``, is neither.
    """
    if isinstance(report, Report):
        return report._source()
    if isinstance(report, (str, bytes, os.PathLike)):
        return os.fsencode(report)
    raise TypeError(
        f"{name} is {describe_object(report)}; give a report, as of lamina.inspect, or the name of a file "
        "that report.to_json or `lamina run` wrote"
    )


class NoRuleError(LaminaError, ValueError):
    """An operator or a layer without a rule ran, under ``strict=True``.

    Attributes:
        report: the report.
        operators: operators without a rule, each with the number of its runs.
        layers: types of layers without a rule, each with the number of its calls.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self.operators = report.unruled_ops
        self.layers = report.unruled
        names = [f"the operator {name} ({_times(n, 'run')})" for name, n in self.operators.items()]
        names += [f"the layer {name} ({_times(n, 'call')})" for name, n in self.layers.items()]
        super().__init__(f"no rule in {report.convention} for {', '.join(names)}; lamina.register gives one")


def _times(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
