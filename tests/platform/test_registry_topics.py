"""Topics of a real broker have their schemas in a real registry.

Values go from producers' serializers to rows and dead letters.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from log_service.client import (
    BlockingAvroSerializer,
    BlockingJsonSchemaSerializer,
    BlockingProducer,
    BlockingProtobufSerializer,
    BlockingSchemaRegistryClient,
)
from log_service.client.schemas.wire_format import header_value_of
from orchestration import TopicSpec, from_registry, spark_table, topic_asset
from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.resources import LakeResource, LogServiceResource
from orchestration.topics.spec import reconcile
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.to_lake.run import run_topic_table
from tests.helpers.broker_process import ALONE, BrokerProcess
from tests.helpers.registry_process import RegistryProcess
from tests.platform.assets_world import OpenedSpark
from tests.platform.pipeline import letters_of, run_context
from tests.unit.client.schemas import confluent
from tests.unit.client.schemas.proto_types import classes

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]
UNFRAMED = "the value does not begin with a zero and a schema's id, as Confluent's framing has it"
FIRST = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}],
}
SECOND = {
    **FIRST,
    "fields": [
        {"name": "channel", "type": ["null", "string"], "default": None},
        {"name": "id", "type": "long"},
    ],
}
Serialize = Callable[[Mapping[str, Any]], bytes]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of a broker and of its registry."""
    directory = tmp_path_factory.mktemp("registry")
    with (
        BrokerProcess(directory, properties=ALONE) as broker,
        RegistryProcess(directory, broker.bootstrap) as registry,
    ):
        yield broker.bootstrap, registry.url


def ours(url: str, topic: str, schema: Mapping[str, Any]) -> Serialize:
    def serialize(value: Mapping[str, Any]) -> bytes:
        with BlockingSchemaRegistryClient(url) as client:
            written = BlockingAvroSerializer(client, json.dumps(schema)).serialize(topic, value)
        assert written is not None
        return written

    return serialize


def theirs(url: str, topic: str, schema: Mapping[str, Any]) -> Serialize:
    def serialize(value: Mapping[str, Any]) -> bytes:
        with confluent.registry(url) as client:
            serializer = confluent.AvroSerializer(
                client, json.dumps(schema), conf=confluent.TOPIC_NAMES
            )
            written: bytes = serializer(value, confluent.about(topic))
        return written

    return serialize


@pytest.mark.parametrize("way", ["run process", "Spark's workers"])
@pytest.mark.parametrize(
    "serializer", [ours, pytest.param(theirs, marks=confluent.needs_confluent)]
)
def test_records_of_two_versions_are_rows_and_the_others_dead_letters(  # noqa: PLR0917 - fixtures and parameters
    installation: tuple[str, str],
    tmp_path: Path,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
    serializer: Callable[..., Serialize],
    way: str,
) -> None:
    """A table that evolves gets the new column. An unknown id and a record without value are dead
    letters.
    """
    bootstrap, url = installation
    monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_URL", url)
    monkeypatch.setenv("TIDELOG_DATA", str(tmp_path))
    topic = f"orders-{serializer.__name__}-{len(way)}"
    old = serializer(url, topic, FIRST)({"id": 1})
    lake_root = tmp_path / "lake"

    def run() -> None:
        spec = TopicSpec(name=topic, schema=from_registry(f"{topic}-value"))
        table = TopicTable(
            name="clean_orders",
            topic=spec,
            function=lambda records: records.drop("_timestamp", "_key"),
            is_evolving=True,
        )
        with connect(bootstrap) as log:
            reconcile(log, spec)
            context = run_context(
                log,  # type: ignore[arg-type]
                lake_root,
                spark,
                arrow_records=0 if way == "Spark's workers" else 1_000,
            )
            run_topic_table(table, context)

    def send(*values: bytes | None) -> None:
        with BlockingProducer(bootstrap) as producer:
            for value in values:
                producer.send(topic, value, key=b"k", partition=0)

    with connect(bootstrap) as log:
        reconcile(log, TopicSpec(name=topic))
    send(old)
    run()
    new = serializer(url, topic, SECOND)({"channel": "web", "id": 2})
    send(new, old, b"\0\0\0\xff\xff" + new[5:], None, b"\7" + new[1:], new[:-1], new)
    with BlockingSchemaRegistryClient(url) as client:
        guid = client.get_latest_version(f"{topic}-value").guid or ""
    with BlockingProducer(bootstrap) as producer:
        header = ("__value_schema_id", header_value_of(guid))
        producer.send(topic, new[5:], key=b"k", partition=0, headers=[header])
    run()

    snapshot = Lake(lake_root).snapshot("clean_orders")
    assert snapshot is not None
    table = snapshot.dataset().to_table(columns=["_offset", "id", "channel"]).sort_by("_offset")
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert rows == [(0, 1, None), (1, 2, "web"), (2, 1, None), (7, 2, "web"), (8, 2, "web")]
    assert [(offset, reason) for _, offset, _, reason in letters_of(lake_root)] == [
        (3, f"its schema id 65535 is not known to the registry {url}"),
        (4, "the value is null"),
        (5, UNFRAMED),
        (6, "the value ends within field id"),
    ]


@pytest.mark.parametrize(
    "is_of_confluent", [False, pytest.param(True, marks=confluent.needs_confluent)]
)
def test_protobuf_and_json_values_are_read(
    installation: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_of_confluent: bool,
) -> None:
    """The registry returns descriptors, also of the files that a file imports."""
    _, url = installation
    monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_URL", url)
    monkeypatch.setenv("TIDELOG_DATA", str(tmp_path))
    topics = {kind: f"{kind}-{is_of_confluent}" for kind in ("proto", "json")}
    order = classes()["Order"]
    message = order(id=3)
    message.paid.amount = 1.5
    text = json.dumps(
        {
            "title": "Order",
            "type": "object",
            "properties": {"id": {"type": "integer"}},
            "required": ["id"],
        }
    )
    if is_of_confluent:
        with confluent.registry(url) as client:
            proto: Any = confluent.ProtobufSerializer(
                order, client, {**confluent.TOPIC_NAMES, "use.deprecated.format": False}
            )
            as_json: Any = confluent.JSONSerializer(text, client, conf=confluent.TOPIC_NAMES)
            values = [
                proto(message, confluent.about(topics["proto"])),
                as_json({"id": 4}, confluent.about(topics["json"])),
            ]
    else:
        with BlockingSchemaRegistryClient(url) as ours_client:
            values = [
                BlockingProtobufSerializer(ours_client, order).serialize(topics["proto"], message),
                BlockingJsonSchemaSerializer(ours_client, text).serialize(
                    topics["json"], {"id": 4}
                ),
            ]
    schemas = (
        from_registry(f"{topics['proto']}-value", message=order.DESCRIPTOR.full_name),
        from_registry(f"{topics['json']}-value"),
    )
    (protos, no_fault), (jsons, none) = (
        schema.read(pa.array([one], pa.binary()))
        for schema, one in zip(schemas, values, strict=True)
    )
    assert (no_fault.to_pylist(), none.to_pylist()) == ([None], [None])
    (row,) = protos.to_pylist()
    assert (row["id"], row["paid"]["amount"]) == (3, 1.5)
    assert jsons.to_pylist() == [{"id": 4}]


def test_runs_tell_version_and_id_and_whether_the_newest_version_fits(
    installation: tuple[str, str], tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the metadata of the topic's and of the table's materialization, and as a check."""
    bootstrap, url = installation
    monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_URL", url)
    monkeypatch.setenv("TIDELOG_DATA", str(tmp_path))
    value = ours(url, "told", FIRST)({"id": 1})
    spec = TopicSpec(name="told", schema=from_registry("told-value"))
    with connect(bootstrap) as log, BlockingProducer(bootstrap) as producer:
        reconcile(log, spec)
        producer.send("told", value)

    @spark_table(topic=spec)
    def told_orders(records: Any) -> Any:
        return records.drop("_timestamp", "_key")

    asset = topic_asset(spec)
    resources = {
        "log_service": LogServiceResource(bootstrap_servers=bootstrap),
        "lake": LakeResource(root=str(tmp_path / "lake")),
        "spark": OpenedSpark(spark),
    }
    result = dg.materialize([asset, told_orders], resources=resources)
    for one in (asset, told_orders):
        (event,) = result.asset_materializations_for_node(one.op.name)
        assert event.metadata["schema_version"].value == 1
        number = event.metadata["schema_id"].value
        assert event.metadata["schema"].value == f"version 1 of told-value (schema id {number})"
    (verdict,) = result.get_asset_check_evaluations()
    assert (verdict.passed, verdict.asset_key) == (True, told_orders.key)
    assert verdict.description == f"{event.metadata['schema'].value} is the newest, and is declared"
