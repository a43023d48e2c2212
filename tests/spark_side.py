# SPDX-License-Identifier: Apache-2.0
"""The half of tools/test-spark that has pyspark: it answers queries, one object of JSON a line.

A request has ``folder``, ``program`` (in Python, which makes the tables of the folder known, given
``folder``), ``queries`` by their names, and in ``write`` names of queries whose rows are written
as Parquet, with the folder of each. An answer has the rows of each query, or its error as a text.
"""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from decimal import Decimal
from typing import Any

from pyspark.sql import SparkSession


def plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def answered(spark: SparkSession, asked: dict[str, Any]) -> dict[str, Any]:
    with redirect_stdout(sys.stderr):  # answers alone go to the caller
        exec(asked["program"], {"folder": asked["folder"]})
    told: dict[str, Any] = {}
    for name, query in asked["queries"].items():
        try:
            rows = spark.sql(query)
            if name in asked["write"]:
                rows.write.mode("overwrite").parquet(asked["write"][name])
            told[name] = [[plain(value) for value in row] for row in rows.collect()]
        except Exception as error:
            told[name] = f"{type(error).__name__}: {error}".partition("\n")[0]
    return told


def main() -> None:
    builder = SparkSession.builder.master("local[2]").appName("lamina")
    for name, value in (
        ("spark.driver.bindAddress", "127.0.0.1"),
        ("spark.driver.host", "127.0.0.1"),
        ("spark.ui.enabled", "false"),
        ("spark.sql.shuffle.partitions", "2"),
        ("spark.sql.session.timeZone", "UTC"),
    ):
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    print(json.dumps({"version": spark.version}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answered(spark, json.loads(line))), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
