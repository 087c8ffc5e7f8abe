"""Avro and Protobuf go from a topic to a table.

Rows and dead letters are the same for every reader, with rules, fixes, and newest rows.
"""

import io
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf.message_factory import GetMessageClass

from orchestration.dead_letters.fixes import Fix, Fixes
from orchestration.formats import AvroSchema, ProtobufSchema, avro_schema, protobuf_schema
from orchestration.formats.descriptors import find_message
from orchestration.lake.tables import Lake
from orchestration.quality import quarantine
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.batch import intake
from orchestration.transforms.joining.run import run_joined_table
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.to_lake.replay import run_replay
from orchestration.transforms.to_lake.run import run_topic_table
from tests.platform.joined import joined_table
from tests.platform.pipeline import letters_of, orders_table, run_context
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = pytest.mark.platform
AVRO = """{"type": "record", "name": "Order", "namespace": "shop", "fields": [
  {"name": "id", "type": "long"},
  {"name": "amount", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
  {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["WEB", "SHOP"]}},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
  {"name": "tags", "type": {"type": "array", "items": "string"}},
  {"name": "counts", "type": {"type": "map", "values": "int"}},
  {"name": "place", "type": ["null", {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}]}
]}"""
PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
enum Kind { WEB = 0; SHOP = 1; }
message Place { string city = 1; }
message Order {
  int64 id = 1;
  optional uint64 amount = 2;
  Kind kind = 3;
  google.protobuf.Timestamp at = 4;
  repeated string tags = 5;
  map<string, int32> counts = 6;
  Place place = 7;
}
"""
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WAYS = {
    "run process": (1_000_000, intake.INLINE_BYTES),
    "file": (1_000_000, 0),
    "Spark's workers": (0, intake.INLINE_BYTES),
}
COLUMNS = ["_offset", "id", "amount", "kind", "at", "tags", "counts", "place"]
Encode = Callable[[Mapping[str, Any]], bytes]


def avro(folder: Path) -> tuple[AvroSchema, Encode]:
    (folder / "orders.avsc").write_text(AVRO)
    schema = avro_schema(folder / "orders.avsc")
    parsed = fastavro.schema.load_schema(str(folder / "orders.avsc"))

    def encode(record: Mapping[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, dict(record))
        return out.getvalue()

    return schema, encode


def protobuf(folder: Path) -> tuple[ProtobufSchema, Encode]:
    (folder / "orders.proto").write_text(PROTO)
    schema = protobuf_schema(folder / "orders.proto", message="shop.Order")
    made = GetMessageClass(find_message(schema.descriptors, schema.message))

    def encode(record: Mapping[str, Any]) -> bytes:
        given = {**record, "amount": None if record["amount"] is None else int(record["amount"])}
        written: bytes = made(
            **{name: value for name, value in given.items() if value is not None}
        ).SerializeToString()
        return written

    return schema, encode


def an_order(number: int, **changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": number,
        "amount": Decimal(number),
        "kind": "SHOP",
        "at": NOON,
        "tags": ["a", "b"],
        "counts": {"x": number},
    }
    return {**made, "place": {"city": "Wien"}, **changes}


def table_of(schema: AvroSchema | ProtobufSchema, **changes: Any) -> Any:
    declared = {
        "topic": TopicSpec(name="orders", schema=schema),
        "function": lambda records: records,
        "unique_by": (),
        "rules": (),
    }
    return orders_table(**{**declared, **changes})


def table_rows(lake_root: Path) -> list[dict[str, Any]]:
    snapshot = Lake(lake_root).snapshot("clean_orders")
    assert snapshot is not None
    found: list[dict[str, Any]] = (
        snapshot.dataset().to_table(columns=COLUMNS).sort_by("_offset").to_pylist()
    )
    return found


@pytest.fixture(params=[avro, protobuf])
def written(
    request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[AvroSchema | ProtobufSchema, Encode]:
    made: tuple[AvroSchema | ProtobufSchema, Encode] = request.param(tmp_path)
    return made


@pytest.mark.parametrize(
    "rules",
    [(), (quarantine("amount_is_small", "coalesce(amount, 0) < 100"),)],
    ids=["chosen by Arrow", "Spark"],
)
def test_records_are_rows_and_damaged_ones_dead_letters_whoever_reads(
    written: tuple[Any, Encode],
    tmp_path: Path,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
    rules: tuple[Any, ...],
) -> None:
    schema, encode = written
    log = MemoryLog()
    partition = log.add_topic("orders").partitions[0]
    bare = an_order(2, amount=None, place=None, tags=[], counts={})
    for value in (
        encode(an_order(1)),
        encode(an_order(1))[:-1],
        None,
        encode(bare),
        encode(an_order(3)) + b"\xff",
        encode(an_order(100)),
    ):
        partition.append(value, key=b"k", headers=[("h", b"1")])
    found = []
    for name, (arrow_records, inline_bytes) in WAYS.items():
        monkeypatch.setattr(intake, "INLINE_BYTES", inline_bytes)
        context = run_context(
            log,
            tmp_path / name,
            spark,
            arrow_records=arrow_records,
            scratch=tmp_path / name / "scratch",
        )
        run_topic_table(table_of(schema, rules=rules, has_headers=True), context)
        found.append((table_rows(tmp_path / name), letters_of(tmp_path / name)))

    assert found[0] == found[1] == found[2]
    rows, letters = found[0]
    assert [row["_offset"] for row in rows] == ([0, 3] if rules else [0, 3, 5])
    assert rows[0] == {"_offset": 0, **an_order(1, counts=[("x", 1)])}
    assert rows[1] == {"_offset": 3, **bare, "counts": []}
    assert [(offset, rule) for _, offset, rule, _ in letters if rule == "schema"] == [
        (1, "schema"),
        (2, "schema"),
        (4, "schema"),
    ]
    assert letters[1][3] == "the value is null"
    assert len(letters) == (4 if rules else 3)


def test_a_fixed_record_is_replayed(
    written: tuple[Any, Encode], tmp_path: Path, spark: Any
) -> None:
    schema, encode = written
    log = MemoryLog()
    log.add_topic("orders").partitions[0].append(encode(an_order(1))[:-1])
    table, context = table_of(schema), run_context(log, tmp_path, spark)
    run_topic_table(table, context)
    Fixes(Lake(tmp_path)).put(
        "clean_orders",
        [Fix(topic_id="id-of-orders", partition=0, offset=0, value=encode(an_order(7)))],
    )
    list(run_replay(table, context, ReplayRequest(is_of_dead_letters=True)))
    assert [row["id"] for row in table_rows(tmp_path)] == [7]
    assert letters_of(tmp_path) == []


def test_the_newest_row_of_a_key_is_kept_and_a_record_without_value_deletes_it(
    written: tuple[Any, Encode], tmp_path: Path, spark: Any
) -> None:
    schema, encode = written
    log = MemoryLog()
    partition = log.add_topic("orders").partitions[0]
    for value, key in (
        (encode(an_order(1)), b"1"),
        (encode(an_order(2)), b"2"),
        (encode(an_order(1, amount=Decimal(9))), b"1"),
        (None, b"2"),
    ):
        partition.append(value, key=key)
    run_topic_table(table_of(schema, latest_by=("id",)), run_context(log, tmp_path, spark))
    assert [(row["id"], row["amount"]) for row in table_rows(tmp_path)] == [(1, Decimal(9))]
    assert letters_of(tmp_path) == []


def test_a_join_reads_its_topics_in_their_formats(
    written: tuple[Any, Encode], tmp_path: Path, spark: Any
) -> None:
    schema, encode = written
    log = MemoryLog()
    log.add_topic("orders").partitions[0].append(encode(an_order(1)))
    log.topics["orders"].partitions[0].append(encode(an_order(2))[:-1])
    log.add_topic("payments").partitions[0].append(
        b'{"order_id": 1, "paid": 2.5, "paid_at": "2026-01-01T12:00:10Z"}'
    )
    table = joined_table(
        left=TopicSpec(name="orders", schema=schema),
        right=TopicSpec(
            name="payments", schema="order_id BIGINT NOT NULL, paid DOUBLE, paid_at TIMESTAMP"
        ),
        function=lambda pairs: pairs.select(
            "id", "left.kind", "left.counts", "right.paid", "_left", "_right"
        ),
        rules=(),
    )
    run_joined_table(table, run_context(log, tmp_path, spark))
    snapshot = Lake(tmp_path).snapshot(table.name)
    assert snapshot is not None
    (row,) = snapshot.dataset().to_table(columns=["id", "kind", "counts", "paid"]).to_pylist()
    assert row == {"id": 1, "kind": "SHOP", "counts": [("x", 1)], "paid": 2.5}
    assert [(offset, rule) for _, offset, rule, _ in letters_of(tmp_path)] == [(1, "schema")]
