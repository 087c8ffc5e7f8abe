"""Records that lack a VARIANT, or hold null, are rows.

Its stored text is JSON for every reader, in old tables the bytes of before.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from orchestration.lake.tables import Lake, replace_all
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.to_lake.run import run_topic_table
from tests.platform.pipeline import letters_of, orders_table, run_context
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = pytest.mark.platform
PLACE = ("_topic_id", "_partition", "_offset")
FORMS = TopicSpec(
    name="orders",
    schema="id STRING, v VARIANT, s STRUCT<w: VARIANT>, l ARRAY<VARIANT>, m MAP<STRING, VARIANT>",
)
PLAIN = TopicSpec(name="orders", schema="id STRING, t STRING")
VALUES = [
    b'{"id": "a", "v": {"x": [1, "y"]}, "s": {"w": 1.5}, "l": [1, null, {"z": true}], "m": {"k": null}}',
    b'{"id": "b", "v": null, "s": {}, "l": [], "m": {}}',
    b'{"id": "c", "s": null}',
    b'{"id": "d", "v": ',
]
STORED = [
    ("a", '{"x":[1,"y"]}', {"w": "1.5"}, ["1", None, '{"z":true}'], [("k", None)]),
    ("b", None, {"w": None}, [], []),
    ("c", None, None, None, None),
]


@pytest.fixture
def log() -> MemoryLog:
    made = MemoryLog()
    made.add_topic("orders", 1)
    for value in VALUES:
        made.topics["orders"].partitions[0].append(value)
    return made


def stored(lake_root: Path, *columns: str) -> list[tuple[Any, ...]]:
    rows = Lake(lake_root).existing("clean_orders").dataset().to_table(columns=list(columns))
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=lambda row: str(row[0]))


@pytest.mark.parametrize("arrow_records", [100, 1], ids=["run-process", "workers"])
def test_what_lacks_a_variant_or_holds_null_is_a_row_and_all_are_json(
    log: MemoryLog, lake_root: Path, spark: Any, arrow_records: int
) -> None:
    table = orders_table(topic=FORMS, function=lambda records: records, rules=(), unique_by=())
    run_topic_table(table, run_context(log, lake_root, spark, arrow_records=arrow_records))
    assert stored(lake_root, "id", "v", "s", "l", "m") == STORED
    assert [one[:3] for one in letters_of(lake_root)] == [(0, 3, "schema")]


@pytest.mark.parametrize("arrow_records", [100, 1], ids=["run-process", "workers"])
def test_a_transform_is_given_variants_and_may_make_one(
    log: MemoryLog, lake_root: Path, spark: Any, arrow_records: int
) -> None:
    expressions = (
        *PLACE,
        "id",
        "variant_get(v, '$.x[1]', 'string') AS y",
        "v IS NULL AS is_lacking",
    )
    table = orders_table(
        topic=FORMS,
        function=lambda records: records.selectExpr(*expressions),
        rules=(),
        unique_by=(),
    )
    run_topic_table(table, run_context(log, lake_root, spark, arrow_records=arrow_records))
    assert stored(lake_root, "id", "y", "is_lacking") == [
        ("a", "y", False),
        ("b", None, True),
        ("c", None, True),
    ]
    made = orders_table(
        topic=PLAIN,
        name="made",
        function=lambda records: records.selectExpr(
            *PLACE, "try_parse_json(if(id = 'a', '[1]', id)) AS v"
        ),
        rules=(),
        unique_by=(),
    )
    result = run_topic_table(made, run_context(log, lake_root, spark))
    assert result.batch is not None
    assert result.batch.rows["v"].to_pylist() == ["[1]", None, None]


def test_a_table_that_holds_the_bytes_of_an_earlier_release_goes_on(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    pair = pa.struct([pa.field("value", pa.binary()), pa.field("metadata", pa.binary())])
    schema = pa.schema(
        [
            ("_topic_id", pa.string()),
            ("_partition", pa.int32()),
            ("_offset", pa.int64()),
            ("id", pa.string()),
            ("v", pair),
        ]
    )
    lake = Lake(lake_root)
    replace_all(lake.create("clean_orders", schema), schema.empty_table(), {}, {})
    table = orders_table(
        topic=FORMS,
        function=lambda records: records.select(*PLACE, "id", "v"),
        rules=(),
        unique_by=(),
    )
    run_topic_table(table, run_context(log, lake_root, spark))
    empty = {"value": b"\x00", "metadata": b"\x01\x00\x00"}
    (first, *others) = stored(lake_root, "id", "v")
    assert first[1]["value"].startswith(b"\x02")
    assert others == [("b", empty), ("c", empty)]
