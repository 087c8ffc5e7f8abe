"""Schemas from files where topics are declared: kept with the asset, and read without the file."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from orchestration.formats import AvroSchema, ProtobufSchema, avro_schema, protobuf_schema
from orchestration.sources import folder_source, sql_source
from orchestration.topics.spec import TopicSpec, topic_asset, topic_specs
from orchestration.transforms import spark_topic

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long", "doc": "the number"}],
}


@pytest.fixture(params=["avro", "protobuf"])
def schema(request: pytest.FixtureRequest, tmp_path: Path) -> AvroSchema | ProtobufSchema:
    (tmp_path / "orders.avsc").write_text(json.dumps(AVRO))
    (tmp_path / "orders.proto").write_text('syntax = "proto3"; message Order { int64 id = 1; }')
    if request.param == "avro":
        return avro_schema(tmp_path / "orders.avsc", framing="confluent")
    return protobuf_schema(tmp_path / "orders.proto", message="Order", framing="confluent")


def test_a_topic_that_was_read_back_from_its_asset_is_the_same_without_the_file(
    schema: Any, tmp_path: Path
) -> None:
    spec = TopicSpec(name="orders", schema=schema)
    asset = topic_asset(spec)
    for file in tmp_path.iterdir():
        file.unlink()
    (found,) = topic_specs([asset])
    assert found == spec
    assert found.value_format is not None
    value = b"\0\0\0\0\1" + (b"\x0a" if isinstance(schema, AvroSchema) else b"\x00\x08\x05")
    assert found.value_format.read(pa.array([value], pa.binary()))[0].to_pylist() == [{"id": 5}]
    columns = asset.metadata_by_key[spec.asset_key]["dagster/column_schema"].columns
    assert [(one.name, one.type, one.constraints.nullable) for one in columns] == [
        ("id", "bigint", False)
    ]


def test_a_topic_without_such_a_schema_has_no_format() -> None:
    assert TopicSpec(name="orders", schema="id BIGINT").value_format is None
    assert TopicSpec(name="orders").value_format is None


def test_a_transform_that_sends_json_to_a_topic_of_another_format_is_refused(schema: Any) -> None:
    with pytest.raises(
        ValueError,
        match="sends JSON, and the schema of the topic sent is another format's: declare it with Spark's DDL",
    ):

        @spark_topic(
            source=TopicSpec(name="orders", schema="id BIGINT"),
            target=TopicSpec(name="sent", schema=schema),
        )
        def sent(records: Any) -> Any:
            """All of them."""
            return records


def test_a_source_that_sends_json_to_such_a_topic_is_refused_and_whole_files_are_not(
    schema: Any, tmp_path: Path
) -> None:
    letters = TopicSpec(name="letters", schema=schema)
    told = "the source inbox sends JSON, and the schema of the topic letters is another format's: declare it with Spark's DDL"
    with pytest.raises(ValueError, match=f"{told}$"):
        sql_source("inbox", topic=letters, table="letters", key="id")
    for read_as in (None, "lines", "csv", "parquet"):
        with pytest.raises(
            ValueError,
            match=rf'{told}, or send whole files, each a value in that format \(read_as="whole"\)$',
        ):
            folder_source("inbox", topic=letters, folder=tmp_path, read_as=read_as)
    assert folder_source("inbox", topic=letters, folder=tmp_path, read_as="whole").key.path == [
        "sources",
        "inbox",
    ]
