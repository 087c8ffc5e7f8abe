"""A topic of Debezium's changes becomes a table that keeps the newest row, as the source has it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestration.formats.columns import ROW_DELETED
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.to_lake.run import run_topic_table
from tests.platform.pipeline import letters_of, rows_of, run_context
from tests.unit.orchestration.formats.debezium_values import ROW, ROW_DDL, in_json, with_schema
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = pytest.mark.platform
Write = Callable[..., bytes]
NAME = "shop.public.customers"
CUSTOMERS = TopicTable(
    name="customers",
    topic=TopicSpec(
        name=NAME, schema=ROW_DDL, envelope="debezium", decimals="base64", epoch_unit="us"
    ),
    function=lambda records: records.drop("_key"),
    latest_by=("id",),
)


def row(identity: int, name: str) -> dict[str, Any]:
    return {**ROW, "id": identity, "name": name}


def append_changes(log: MemoryLog, write: Write) -> None:
    """Append a snapshot of two rows, then changes, a delete with its tombstone, and a truncate."""
    changes: list[tuple[int | None, bytes | None]] = [
        (1, write("r", row(1, "Sally"))),
        (2, write("r", row(2, "George"))),
        (3, write("c", row(3, "Edward"))),
        (1, write("u", row(1, "Sally Ann"), row(1, "Sally"))),
        (2, write("d", None, row(2, "George"))),
        (2, None),
        (3, write("d", None, row(3, "Edward"))),
        (3, write("c", row(3, "Anne"))),
        (None, write("t", None)),
        (None, write("d", None, row(1, "Sally Ann"))),
    ]
    for identity, value in changes:
        key = None if identity is None else b'{"id": %d}' % identity
        log.topics[NAME].partitions[0].append(value, key=key)


@pytest.mark.parametrize("arrow_records", [10_000, 3], ids=["the run reads", "workers read"])
@pytest.mark.parametrize("write", [in_json, with_schema])
def test_a_table_of_newest_rows_is_what_the_source_has(
    lake_root: Path, spark: Any, arrow_records: int, write: Write
) -> None:
    log = MemoryLog()
    log.add_topic(NAME)
    append_changes(log, write)
    context = run_context(log, lake_root, spark, arrow_records=arrow_records)
    result = run_topic_table(CUSTOMERS, context)
    assert rows_of(lake_root, "customers", ("id", "name")) == [(1, "Sally Ann"), (3, "Anne")]
    letters = letters_of(lake_root)
    assert [(offset, rule) for _, offset, rule, _ in letters] == [(8, "schema"), (9, "latest_by")]
    assert "TRUNCATE" in letters[0][-1]
    assert letters[1][-1].startswith("the change is a DELETE, and the key is null")
    assert result.statistics is not None
    assert result.statistics.records == 10


def test_a_delete_is_a_dead_letter_of_a_table_that_keeps_all_rows(
    lake_root: Path, spark: Any
) -> None:
    log = MemoryLog()
    log.add_topic(NAME)
    append_changes(log, in_json)
    run_topic_table(replace(CUSTOMERS, latest_by=()), run_context(log, lake_root, spark))
    assert len(rows_of(lake_root, "customers", ("id",))) == 5
    assert [one[-1] for one in letters_of(lake_root)].count(ROW_DELETED) == 3


def test_a_column_of_the_source_that_becomes_wider_widens_the_table(
    lake_root: Path, spark: Any
) -> None:
    """The new type and the newest rows are one commit, also where rows are replaced."""
    log = MemoryLog()
    log.add_topic(NAME)
    partition = log.topics[NAME].partitions[0]
    for identity in (1, 2):
        partition.append(in_json("c", row(identity, "old")), key=b'{"id": %d}' % identity)
    table = replace(CUSTOMERS, is_evolving=True)
    run_topic_table(table, run_context(log, lake_root, spark))
    wider = ROW_DDL.replace("id INT", "id BIGINT")
    for identity in (2, 2**40):
        partition.append(in_json("u", row(identity, "new")), key=b'{"id": %d}' % identity)
    partition.append(in_json("d", None), key=b'{"id": 1}')
    table = replace(table, topic=replace(CUSTOMERS.topic, schema=wider))
    result = run_topic_table(table, run_context(log, lake_root, spark))
    assert rows_of(lake_root, "customers", ("id", "name")) == [(2, "new"), (2**40, "new")]
    assert (result.version, letters_of(lake_root)) == (2, [])
