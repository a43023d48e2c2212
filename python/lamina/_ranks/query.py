# SPDX-License-Identifier: Apache-2.0
"""Queries over the tables of a run's folder."""

from __future__ import annotations

from typing import Any

from .._base.errors import UsageError
from . import FLAG, REAL, TEXT, WHOLE, line_of, of_duckdb, open_run, sql

WHOLES = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
)
REALS = ("FLOAT", "DOUBLE", "DECIMAL")


def ask(folder: str, query: str, spill: str) -> Any:
    """The rows of a query, as an object with ``__arrow_c_stream__``, whose columns are whole numbers, real
    numbers, truths and texts. It reads the files of the folder alone.

    Args:
        spill: an empty folder for what does not fit into memory.

    Raises:
        UsageError: the query has a fault, or is no query; the folder is no run's; DuckDB is not installed.
        FormatError: a file of the folder is damaged.
    """
    run = open_run(folder, spill, for_sql=True)
    try:
        if "steps" in run.has:
            run.db.execute(sql("own"))
        return _rows(run.db, query)
    except Exception as error:
        if not of_duckdb(error):
            raise
        raise UsageError(f"the query can't be answered: {line_of(error)}") from error


def _rows(db: Any, query: str) -> Any:
    import duckdb

    statements = db.extract_statements(query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise UsageError(
            "a query is one SELECT; the tables are ranks, steps, own, layers, windows, meets and orders"
        )
    text = statements[0].query.strip().rstrip(";")
    described = db.execute(f"DESCRIBE SELECT * FROM ({text}\n)").fetchall()
    picked = ", ".join(
        f"CAST(#{i} AS {_kind(row[1])}) AS {_name(row[0])}" for i, row in enumerate(described, 1)
    )
    # Computed here, so that an error is raised here and not where the rows are read.
    _execute(db, f"CREATE TEMPORARY TABLE lamina_rows AS SELECT {picked} FROM ({text}\n)")
    return db.sql("SELECT * FROM lamina_rows")


def _execute(db: Any, text: str) -> None:
    """Runs a statement in another thread, so that a Ctrl-C is heard here, and ends it."""
    from concurrent.futures import ThreadPoolExecutor, wait

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(db.execute, text)
        try:
            running.result()
        except KeyboardInterrupt:
            while not running.done():  # an interrupt of what has not begun yet is lost
                db.interrupt()
                wait([running], 0.05)
            raise


def _kind(of: str) -> str:
    if of == "BOOLEAN":
        return FLAG
    if of in WHOLES:
        return WHOLE
    return REAL if of.startswith(REALS) else TEXT


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
