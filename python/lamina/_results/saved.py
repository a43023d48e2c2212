# SPDX-License-Identifier: Apache-2.0
"""A report that is read from JSON. The file is not trusted: every value is checked."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from .. import _lamina
from .._base.count import STATES
from .._base.errors import FormatError, LaminaError, UsageError
from .._base.files import file_of
from .._base.terminal import terminal_width
from .report import Report, Row

if TYPE_CHECKING:
    from collections.abc import Mapping

    Pair = tuple[int, Any]  # a count in the core's form: its value and the name of its state

SCHEMA = "lamina.report/1"
LARGEST = 256_000_000  # the most bytes of a file
MOST = 2**95  # not a count: the limit of one
DIGITS = 40  # the most digits of a number: more than a count can have
DEEPEST = 65_536  # the largest depth of a place in the tree
# The first three are always there, the others if the convention counts them.
METRICS = (
    "macs",
    "flops",
    "dmas",
    "bytes_read",
    "bytes_written",
    "bytes",
    "effective_macs",
    "effective_flops",
)
UNKNOWN: Pair = (0, "unknown")
# A total's name in the file, and in `report.parameters`.
PARAMETERS = {
    "params": "params",
    "trainable": "grad_params",
    "frozen": "nograd_params",
    "param_bytes": "param_bytes",
    "buffers": "buffers",
    "buffer_bytes": "buffer_bytes",
}
# Fields that are omitted if they are redundant, and their value then: a number, or another total.
MAYBE = {
    "packed": None,
    "packed_bytes": None,
    "logical_bytes": "param_bytes",
    "local_params": "params",
    "local_bytes": "param_bytes",
}
# A row's fields that are copied as they are, with their types.
PLAIN: dict[str, tuple[type, ...]] = {
    "path": (str,),
    "name": (str,),
    "type": (str,),
    "type_path": (str,),
    "depth": (int,),
    "status": (str,),
    "leaf": (bool,),
    "shared": (bool,),
    "reason": (str, type(None)),
}
TAKEN = ("width", "depth", "exact", "color", "bars", "ascii")  # of show(); the last three have no effect
SHOWN = (("MACs", "total_macs"), ("FLOPs", "total_flops"), ("DMAs", "total_dmas"))
KINDS = {dict: "an object", list: "a list", str: "a text", int: "a whole number", bool: "true or false"}


class _Reader:
    """The values of one file; an invalid value ends reading, with its place in the file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def fail(self, where: str, what: str) -> NoReturn:
        place = f"{self.path}: {where}" if where else self.path
        raise FormatError(f"{place} {what}; give a file that report.to_json or --json wrote")

    def get(self, d: Mapping[str, Any], name: str, where: str, *kinds: type) -> Any:
        at = f"{where}.{name}" if where else name
        if name not in d:
            self.fail(at, "is missing")
        value = d[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            self.fail(at, f"is not {' or '.join(KINDS.get(kind, 'null') for kind in kinds)}")
        return self.text(value) if isinstance(value, str) else value

    def pairs(self, d: Mapping[str, Any], of: str, /, **kinds: type) -> list[Any]:
        """Two fields of each object of a list, by their names and types."""
        items = enumerate(self.objects(d, of))
        return [tuple(self.get(one, k, f"{of}[{i}]", kind) for k, kind in kinds.items()) for i, one in items]

    @staticmethod
    def text(value: str) -> str:
        return value.encode("utf-8", "replace").decode()  # a lone surrogate can't be printed

    def texts(self, d: Mapping[str, Any], name: str) -> list[str]:
        values = self.get(d, name, "", list)
        for i, value in enumerate(values):
            if not isinstance(value, str):
                self.fail(f"{name}[{i}]", "is not a text")
        return [self.text(value) for value in values]

    def named_texts(self, d: Mapping[str, Any], name: str) -> dict[str, str]:
        """An object of texts; empty in a file of an older lamina, which did not write it."""
        found: dict[str, Any] = self.get(d, name, "", dict) if name in d else {}
        return {self.text(key): self.get(found, key, name, str) for key in found}

    def objects(self, d: Mapping[str, Any], name: str, where: str = "") -> list[dict[str, Any]]:
        values: list[dict[str, Any]] = self.get(d, name, where, list)
        for i, value in enumerate(values):
            if not isinstance(value, dict):
                self.fail(f"{where}.{name}[{i}]" if where else f"{name}[{i}]", "is not an object")
        return values

    def count(self, d: Mapping[str, Any], name: str, where: str) -> Pair:
        told = self.get(d, name, where, dict)
        at = f"{where}.{name}"
        state = self.get(told, "state", at, str)
        if state not in STATES:
            self.fail(f"{at}.state", f"is not {', '.join(STATES)}")
        value = self.get(told, "value", at, int, type(None))
        if (value is None) != (state == "unknown") or (value is not None and value < 0):
            self.fail(f"{at}.value", "does not go with its state")
        if value is not None and value >= MOST:
            self.fail(f"{at}.value", "is larger than a count can be")
        return UNKNOWN if value is None else (value, state)

    def metrics(self, d: Mapping[str, Any], where: str) -> dict[str, Any]:
        known: dict[str, Any] = {
            name: self.count(d, name, where) if name in d or name in METRICS[:3] else UNKNOWN
            for name in METRICS
        }
        known["intensity"] = self.real(d, "intensity", where) if "intensity" in d else None
        return known

    def parameters(self, d: Mapping[str, Any], where: str) -> dict[str, Pair]:
        found = {ours: self.count(d, name, where) for name, ours in PARAMETERS.items()}
        for name, instead in MAYBE.items():
            otherwise = found[instead] if instead else (0, "exact")
            found[name] = self.count(d, name, where) if name in d else otherwise
        return found

    def real(self, d: Mapping[str, Any], name: str, where: str) -> float | None:
        value = self.get(d, name, where, int, float, type(None))
        return None if value is None else float(value)

    def sizes(self, d: Mapping[str, Any], name: str, where: str) -> tuple[tuple[int, ...] | None, ...]:
        found: list[tuple[int, ...] | None] = []
        for i, tensor in enumerate(self.objects(d, name, where)):
            at = f"{where}.{name}[{i}]"
            shape = self.get(tensor, "shape", at, list, type(None))
            if shape is not None and not all(type(size) is int and size >= 0 for size in shape):
                self.fail(f"{at}.shape", "is not a list of sizes")
            found.append(None if shape is None else tuple(shape))
        return tuple(found)

    def dtypes(self, d: Mapping[str, Any], name: str, where: str) -> tuple[str | None, ...]:
        tensors = enumerate(self.objects(d, name, where))
        return tuple(self.get(t, "dtype", f"{where}.{name}[{i}]", str, type(None)) for i, t in tensors)

    # -- parts of a report ---------------------------------------------------------------------------------

    def row(self, d: dict[str, Any], where: str) -> dict[str, Any]:
        fields: dict[str, Any] = {name: self.get(d, name, where, *kinds) for name, kinds in PLAIN.items()}
        if not 0 <= fields["depth"] <= DEEPEST:
            self.fail(f"{where}.depth", f"is not from 0 to {DEEPEST}")
        fields["never_called"] = fields["status"] in ("never called", "called elsewhere")
        fields["inside"] = fields["status"] == "not seen"
        call = self.get(d, "call", where, int, type(None))
        fields["ordinal"] = -1 if call is None else call
        fields["rule_kind"] = self.get(d, "rule", where, str, type(None))
        fields |= self.parameters(d, where)
        below = self.get(d, "subtotal", where, dict)
        fields["total_params"] = self.count(below, "params", f"{where}.subtotal")
        for prefix, told, at in (("", d, where), ("total_", below, f"{where}.subtotal")):
            fields |= {prefix + name: value for name, value in self.metrics(told, at).items()}
            for phase in ("backward", "recompute"):
                known = self.phase(told, phase, at)
                fields |= {f"{prefix}{phase}_{name}": value for name, value in known.items()}
        for name, ours in (("inputs", "in"), ("outputs", "out")):
            fields[f"{ours}_shapes"] = self.sizes(d, name, where)
            fields[f"{ours}_dtypes"] = self.dtypes(d, name, where)
        fields["rf"] = self.real(d, "receptive_field", where)
        fields |= {name: self.real(d, name, where) for name in ("rf_stride", "rf_padding")}
        return fields | {"rf_axes": None, "time": None}

    def phase(self, d: Mapping[str, Any], phase: str, where: str) -> dict[str, Any]:
        """The numbers of a backward pass; without any they are unknown."""
        if phase not in d:
            return {**dict.fromkeys(METRICS, UNKNOWN), "intensity": None}
        return self.metrics(self.get(d, phase, where, dict), f"{where}.{phase}")


class _NoRun:
    """Replaces the run of a report, and raises that there is none."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UsageError(
            f"this report was read from {self._path}, which holds numbers and not the run itself; "
            "lamina.inspect(model, args) makes a report that can tell this"
        )


class _Costs(_NoRun):
    """The numbers of the file, in the form of the core's costs."""

    def __init__(self, read: _Reader, d: dict[str, Any]) -> None:
        super().__init__(read.path)
        self.convention = read.get(d, "convention", "", str)
        totals = read.get(d, "totals", "", dict)
        self._totals = {"forward": read.metrics(totals, "totals")}
        self._totals |= {phase: read.phase(totals, phase, "totals") for phase in ("backward", "recompute")}
        self._params = read.parameters(totals, "totals")
        self._params["in_rows"] = read.count(totals, "params_in_rows", "totals")
        self._rows = [read.row(row, f"rows[{i}]") for i, row in enumerate(read.objects(d, "rows"))]
        told = set()
        for i, row in enumerate(self._rows):
            one = (row["path"], row["status"], row["ordinal"])
            if one in told:
                read.fail(f"rows[{i}]", "is the second row of one call")
            told.add(one)
        self._gaps = read.texts(d, "gaps")
        self._unruled = read.pairs(d, "unruled", type=str, calls=int)
        operators = read.get(d, "operators", "", dict) if "operators" in d else {"unruled": []}
        self._unruled_ops = read.pairs(operators, "unruled", name=str, runs=int)

    def total(self, name: str) -> Pair:
        count: Pair = self._totals["forward"][name]
        return count

    def totals(self, phase: str = "forward") -> dict[str, Any]:
        return self._totals[phase]

    def params(self) -> dict[str, Pair]:
        return self._params

    def rows(self) -> list[dict[str, Any]]:
        return [dict(fields) for fields in self._rows]

    def gaps(self) -> list[str]:
        return self._gaps

    def unruled(self) -> list[tuple[str, int]]:
        return self._unruled

    def unruled_ops(self) -> list[tuple[str, int]]:
        return self._unruled_ops


class _Model(_NoRun):
    """The other facts of the run in the file."""

    def __init__(self, read: _Reader, d: dict[str, Any]) -> None:
        super().__init__(read.path)
        self._notes = read.texts(d, "notes")
        self._provenance = read.named_texts(d, "provenance")
        names: list[str] = [name for name in ("unused", "no_gradient") if name in d]
        self._findings = {name: read.pairs(d, name, path=str, reason=str) for name in names}

    def notes(self) -> list[str]:
        return self._notes

    def provenance(self) -> dict[str, str]:
        return self._provenance

    def ops_seen(self) -> bool:
        if not self._findings:
            self.__getattr__("findings")
        return True

    def findings(self) -> dict[str, list[tuple[str, str]]]:
        return self._findings


class SavedReport(Report):
    """A report from a file: totals, rows, gaps, notes and a table; see :meth:`Report.load`."""

    def __init__(self, read: _Reader, d: dict[str, Any]) -> None:
        self._path = read.path
        self._costs = _Costs(read, d)  # type: ignore[assignment]
        self._model = _Model(read, d)  # type: ignore[assignment]
        self._rows = self._memory = self._health = self._again = None
        self._first, self._shown = (), {}

    def sees(self, *_: object) -> NoReturn:
        """Raises ValueError: the file holds no graph."""
        self._costs.rf_seen(0, 0, 0)
        raise AssertionError

    def _source(self) -> bytes:
        return os.fsencode(self._path)

    def _failed(self) -> None:
        """None: the file itself contains the failure."""

    # -- the table -----------------------------------------------------------------------------------------

    def _write(self, **options: Any) -> str:
        if "format" in options:
            self._costs.write({})  # raises
        if unknown := [name for name in options if name not in TAKEN]:
            raise UsageError(
                f"this report was read from {self._path} and has no option {unknown[0]!r}; "
                "it has width, depth and exact"
            )
        exact, depth, width = bool(options.get("exact")), options.get("depth"), options.get("width")
        lines = [("name (type)", "output", "params", *(title for title, _ in SHOWN))]
        lines += [_cells(row, exact=exact) for row in self.rows if depth is None or row.depth <= depth]
        table = _lamina.table(lines, terminal_width() if width is None else width)
        sums = {"params": self.params, "MACs": self.macs, "FLOPs": self.flops, "DMAs": self.dmas}
        if self.backward.flops:
            sums |= {"backward MACs": self.backward.macs, "backward FLOPs": self.backward.flops}
        foot = "   ".join(f"{name} {_count(value, exact=exact)}" for name, value in sums.items())
        head = [f"convention {self.convention}   read from {self._path}", ""]
        said = [f"why not exact: {gap}" for gap in self.gaps] + [f"note: {note}" for note in self.notes]
        return _clean(head) + table + _clean(["", foot, *said])

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        shown = {"text/plain": str(self)}
        with suppress(OSError, LaminaError):  # the file no longer exists, or was replaced
            shown["text/html"] = self._repr_html_()
        return shown


def _clean(lines: list[str]) -> str:
    return _lamina.table([(line,) for line in lines], 0)


def _cells(row: Row, *, exact: bool) -> tuple[str, ...]:
    label = f"{'  ' * row.depth}{row.name} ({row.type})" if row.depth else row.type  # not a count: the indent
    shape = row.out_shapes[0] if row.out_shapes else None
    output = "?" if row.out_shapes and shape is None else ",".join(map(str, shape or ()))
    idle = row.never_called or row.inside
    counts = ["-" if idle else _count(row[name], exact=exact) for _, name in SHOWN]
    label += f" [{row.status}]" if idle else ""
    return (label, output, _count(row.total_params, exact=exact), *counts)


def _count(count: Any, *, exact: bool) -> str:
    return _lamina.text_count((int(count), count.state), exact)


def _number(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError("a number is too long")
    return int(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number that JSON has")


def load(path: str | os.PathLike[str]) -> SavedReport:
    """The report in a file; see :meth:`Report.load`."""
    from_file = file_of(path)
    name = str(from_file)
    if not from_file.exists():
        raise FileNotFoundError(
            f"there is no file {name}; report.to_json(path) and `lamina show TARGET --json -o FILE` write one"
        )
    with from_file.open("rb") as file:
        data = file.read(LARGEST + 1)  # not a count: one more byte shows that the file is longer
    read = _Reader(name)
    if len(data) > LARGEST:
        read.fail("", f"is larger than {LARGEST} bytes")
    try:
        told = json.loads(data.decode("utf-8"), parse_int=_number, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        read.fail("", f"is not JSON ({error})")
    if not isinstance(told, dict) or not str(told.get("schema", "")).startswith("lamina.report/"):
        read.fail("", "is not a report of lamina's")
    if told["schema"] != SCHEMA or told.get("schema_version") != 1:
        read.fail("schema", f"is {told['schema']!r}, and this lamina reads {SCHEMA!r}")
    return SavedReport(read, told)
