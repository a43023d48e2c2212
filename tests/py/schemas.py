# SPDX-License-Identifier: Apache-2.0
"""The JSON Schemas of docs/ and of a page's data, and what is asked of each."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from conftest import ROOT

jsonschema = pytest.importorskip("jsonschema")
referencing = pytest.importorskip("referencing")

REPORT, ANSWERS = (
    json.loads((ROOT / f"docs/{name}.schema.json").read_text("utf-8")) for name in ("report", "answers")
)
BLOCK = json.loads((ROOT / "src/report/page/block.schema.json").read_text("utf-8"))
FILES = referencing.Registry().with_resource("report.schema.json", referencing.Resource.from_contents(REPORT))


def wrong(told: Any, schema: Any = ANSWERS) -> list[str]:
    """Where a document is not as the schema says, and why; at most eight."""
    check = jsonschema.Draft202012Validator(schema, registry=FILES)
    errors = sorted(check.iter_errors(told), key=lambda error: list(map(str, error.absolute_path)))
    return [f"{list(error.absolute_path)}: {error.message[:200]}" for error in errors[:8]]


def names_of(schema: object) -> set[str]:
    """The fields that a schema names."""
    found: set[str] = set()
    if isinstance(schema, dict):
        found |= set(schema.get("properties", {}))
        for part in schema.values():
            found |= names_of(part)
    elif isinstance(schema, list):
        for part in schema:
            found |= names_of(part)
    return found


def without_words(schema: object) -> list[str]:
    """The fields that docs/json.md has no word of."""
    text = (ROOT / "docs/json.md").read_text("utf-8")
    spoken = {word for span in re.findall(r"`([^`]*)`", text) for word in re.findall(r"\w+", span)}
    return sorted(names_of(schema) - spoken)


def closed(schema: object) -> bool:
    """Whether every object says of each field what it holds: those that it names and no others, or, as a map,
    all alike."""
    if isinstance(schema, list):
        return all(closed(part) for part in schema)
    if not isinstance(schema, dict):
        return True
    others = schema.get("additionalProperties")
    mine = schema.get("type") != "object" or others is False or isinstance(others, dict)
    return mine and all(closed(part) for part in schema.values())
