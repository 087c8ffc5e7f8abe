"""JSON has one strict reading, with ``json.loads`` as the oracle.

Hostile records go through the run process and through Spark's workers.
"""

import random
from pathlib import Path
from typing import Any

import pytest

from orchestration.topics.spec import TopicSpec
from orchestration.transforms.to_lake.run import run_topic_table
from orchestration.values.rule import PLAIN, RULE
from orchestration.values.scalars import NOT_A_DAY, NOT_A_TIME
from tests.helpers.json_judge import DDL, GOOD, NESTED_DDL, hostile_value, is_fit
from tests.platform.pipeline import letters_of, orders_table, rows_of, run_context
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = pytest.mark.platform
RECORDS = 1_000
WAYS = {"run process": 1_000_000, "Spark's workers": 0}


def outcome(
    log: MemoryLog, directory: Path, spark: Any, ddl: str, arrow_records: int
) -> tuple[list[Any], list[Any]]:
    """Return rows and dead letters of one run over the whole topic."""
    table = orders_table(
        topic=TopicSpec(name="orders", partitions=2, schema=ddl),
        function=lambda records: records,
        unique_by=(),
        rules=(),
    )
    run_topic_table(
        table,
        run_context(
            log, directory, spark, arrow_records=arrow_records, scratch=directory / "scratch"
        ),
    )
    columns = (
        ["_partition", "_offset", *GOOD]
        if ddl == NESTED_DDL
        else ["_partition", "_offset", "id", "ratio", "name", "is_open"]
    )
    return sorted(repr(row) for row in rows_of(directory, columns=columns)), letters_of(directory)


@pytest.mark.parametrize("ddl", [DDL, NESTED_DDL])
def test_the_same_records_are_dead_letters_for_the_same_reasons_whoever_reads(
    tmp_path: Path, spark: Any, ddl: str
) -> None:
    rng = random.Random(f"hostile {ddl}")
    log = MemoryLog()
    partitions = log.add_topic("orders", 2).partitions
    values = {}
    for number in range(RECORDS):
        value = hostile_value(rng)
        values[number % 2, partitions[number % 2].append(value)] = value

    found = [outcome(log, tmp_path / str(limit), spark, ddl, limit) for limit in WAYS.values()]

    assert found[0] == found[1]
    rejected = {(partition, offset) for partition, offset, _, _ in found[0][1]}
    judged = {
        place for place, value in values.items() if not is_fit(value, is_nested=ddl == NESTED_DDL)
    }
    assert {place: values[place] for place in rejected ^ judged} == {}
    assert {rule for _, _, rule, _ in found[0][1]} == {"schema"}
    assert 100 < len(judged) < RECORDS - 100


@pytest.mark.parametrize("arrow_records", WAYS.values(), ids=WAYS)
def test_a_text_that_means_nothing_is_refused_with_the_fields_name(
    tmp_path: Path, spark: Any, arrow_records: int
) -> None:
    log = MemoryLog()
    partition = log.add_topic("orders").partitions[0]
    for member in (
        b'"seen": "soon"',
        b'"seen": "2013-01-01T05:00:00Z"',
        b'"day": "2013-02-30"',
        b'"price": "1000.00"',
        b'"price": "12.5"',
    ):
        partition.append(b"{" + member + b"}")
    partition.append(b'{"seen": "soon", "day": "never", "price": 1}')
    ddl = "seen TIMESTAMP, day DATE, price DECIMAL(4,2), place STRUCT<day: DATE>"
    partition.append(b'{"place": {"day": "soon"}, "price": 1}')
    table = orders_table(
        topic=TopicSpec(name="orders", schema=ddl),
        function=lambda records: records,
        unique_by=(),
        rules=(),
    )
    run_topic_table(table, run_context(log, tmp_path, spark, arrow_records=arrow_records))
    assert [(offset, reason) for _, offset, _, reason in letters_of(tmp_path)] == [
        (0, f"field seen is not TIMESTAMP{NOT_A_TIME}"),
        (2, f"field day is not DATE{NOT_A_DAY}"),
        (3, "field price is not DECIMAL(4,2)"),
        (5, f"field seen is not TIMESTAMP{NOT_A_TIME}; field day is not DATE{NOT_A_DAY}"),
        (6, f"field place.day is not DATE{NOT_A_DAY}"),
    ]


@pytest.mark.parametrize("kind", RULE)
@pytest.mark.parametrize(
    ("arrow_records", "more"),
    [(1_000_000, ""), (0, ""), (1_000_000, ", v VARIANT")],
    ids=[*WAYS, "Spark's parser"],
)
def test_each_form_of_the_rule_is_the_same_row_or_the_same_dead_letter(
    tmp_path: Path, spark: Any, kind: str, arrow_records: int, more: str
) -> None:
    forms = [form for form in RULE[kind] if form.reading == PLAIN]
    log = MemoryLog()
    partition = log.add_topic("orders").partitions[0]
    for form in forms:
        partition.append(f'{{"a": {form.json}, "v": 1}}'.encode())
    topic = TopicSpec(name="orders", schema=f"a {kind}{more}")
    columns = ("_topic_id", "_partition", "_offset", "a")
    table = orders_table(
        topic=topic, function=lambda records: records.select(*columns), unique_by=(), rules=()
    )
    run_topic_table(table, run_context(log, tmp_path, spark, arrow_records=arrow_records))
    expected = [(offset, form.value) for offset, form in enumerate(forms) if form.fault is None]
    assert rows_of(tmp_path, columns=("_offset", "a")) == expected
    refused = [
        (offset, f"field a is not {form.fault}")
        for offset, form in enumerate(forms)
        if form.fault is not None
    ]
    assert [(offset, reason) for _, offset, _, reason in letters_of(tmp_path)] == refused
