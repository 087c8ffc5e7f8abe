"""Topics that ask for registered schemas: a real broker, a real registry, and two client libraries.

The broker asks the registry, which has its topic on the same broker.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from log_service.client import (
    BlockingAdmin,
    BlockingAvroSerializer,
    BlockingProducer,
    BlockingSchemaRegistryClient,
    ErrorCode,
    KafkaError,
    NewTopic,
)
from log_service.records.schema_names import PREFIX
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.console_process import ConsoleProcess
from tests.helpers.ports import free_port, free_ports
from tests.helpers.registry_process import RegistryProcess
from tests.integration import confluent
from tests.integration.client_clusters import TIDELOG
from tests.integration.cluster_nodes import ClusterNodes
from tests.integration.http.console_pages import Person, readable

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

URL = "confluent.schema.registry.url"
VALIDATED = {"confluent.value.schema.validation": "true"}
RECORD_NAME = "io.confluent.kafka.serializers.subject.RecordNameStrategy"
ID = '{"name": "id", "type": "long"}'
ORDER = f'{{"type": "record", "name": "Order", "namespace": "shop", "fields": [{ID}]}}'


@dataclass(frozen=True, kw_only=True)
class Place:
    """One broker, and the registry that it asks."""

    broker: BrokerProcess
    registry: RegistryProcess
    directory: Path
    metrics_port: int

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    def create_topic(self, name: str, **configs: str) -> str:
        with BlockingAdmin(self.bootstrap) as admin:
            admin.create_topics([NewTopic(name=name, configs={**VALIDATED, **configs})])
        return name

    def register(self, subject: str, schema: str = ORDER, url: str = "") -> int:
        response = httpx.post(
            f"{url or self.registry.url}/subjects/{subject}/versions",
            json={"schema": schema},
            timeout=30,
        )
        return int(response.raise_for_status().json()["id"])

    def values(self, topic: str, count: int) -> list[bytes | None]:
        return [each.value() for each in confluent.read_records(self.bootstrap, topic, count)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("validation")
    port, metrics_port = free_ports(2)
    registry = RegistryProcess(directory, f"127.0.0.1:{port}")
    properties = {
        URL: registry.url,
        "transaction.state.log.num.partitions": "2",
        "metrics.listener": f"127.0.0.1:{metrics_port}",
    }
    with BrokerProcess(directory / "broker", port=port, properties=properties) as broker, registry:
        yield Place(
            broker=broker, registry=registry, directory=directory, metrics_port=metrics_port
        )


@pytest.fixture
def topic(place: Place, request: pytest.FixtureRequest) -> str:
    """A topic of this test whose values are validated."""
    return place.create_topic(request.node.originalname.removeprefix("test_"))


def value_of(schema_id: int, payload: bytes = b"\x0e") -> bytes:
    return PREFIX.pack(0, schema_id) + payload


Outcomes = list[str]


@pytest.fixture
def sent(place: Place) -> Callable[..., Outcomes]:
    """Send values by confluent-kafka, and return the outcome of each."""

    def send(topic: str, *values: bytes | None, **more: Any) -> Outcomes:
        sender = confluent.Sent(place.bootstrap, **more)
        for value in values:
            sender.send(topic, value, key=b"k")
            sender.flush_quietly(confluent.WAIT_SECONDS)
        return ["ok" for _ in sender.delivered] + [error.name() for error in sender.failed]

    return send


def test_serializers_write_and_plain_bytes_are_refused(
    place: Place, topic: str, sent: Callable[..., Outcomes]
) -> None:
    """Ours registers the schema, which the broker has not heard of, and writes at once."""
    with (
        BlockingSchemaRegistryClient(place.registry.url) as registry,
        BlockingProducer(place.bootstrap) as producer,
    ):
        serializer = BlockingAvroSerializer(registry, ORDER)
        value = serializer.serialize(topic, {"id": 7})
        producer.send(topic, value=value).wait()
        with pytest.raises(KafkaError) as refused:
            producer.send(topic, value=b"plain").wait()
        assert refused.value.code is ErrorCode.INVALID_RECORD
        assert "its value names no schema" in str(refused.value)
        producer.send(topic, value=None, key=b"gone").wait()
    for codec in ("none", "gzip", "lz4", "zstd", "snappy"):
        assert sent(topic, value, compression_type=codec) == ["ok"]
        assert sent(topic, b"plain", compression_type=codec) == ["INVALID_RECORD"]
    assert place.values(topic, 7) == [value, None, *[value] * 5]


def test_an_id_of_another_subject_is_refused_until_it_is_registered(
    place: Place, topic: str, sent: Callable[..., Outcomes]
) -> None:
    value = value_of(place.register("elsewhere-value"))
    assert sent(topic, value) == ["INVALID_RECORD"]
    place.register(f"{topic}-value")
    confluent.wait_until(lambda: sent(topic, value) == ["ok"], "the schema counts")


def test_an_alias_of_a_subject_counts_and_questions_are_metrics(
    place: Place, topic: str, sent: Callable[..., Outcomes]
) -> None:
    """The broker asks the registry what the topic's subject stands for."""
    value = value_of(place.register("all-orders"))
    assert sent(topic, value) == ["INVALID_RECORD"]
    url = f"{place.registry.url}/config/{topic}-value"
    httpx.put(url, json={"alias": "all-orders"}, timeout=30).raise_for_status()
    confluent.wait_until(lambda: sent(topic, value) == ["ok"], "the alias counts")
    page = httpx.get(f"http://127.0.0.1:{place.metrics_port}/metrics", timeout=30).text
    for outcome in ("accepted", "refused"):
        assert re.search(rf'schema_registry_questions_total{{outcome="{outcome}"}} [1-9]', page)
    assert re.search(r"tidelog_schema_validation_batches_total [1-9]", page)


def test_keys_and_names_of_records(place: Place, sent: Callable[..., Outcomes]) -> None:
    strategy = {"confluent.value.subject.name.strategy": RECORD_NAME}
    topic = place.create_topic("names", **strategy)
    value = value_of(place.register("shop.Order"))
    assert sent(topic, value) == ["ok"]
    keyed = place.create_topic("keyed", **{"confluent.key.schema.validation": "true"}, **strategy)
    assert sent(keyed, value) == ["INVALID_RECORD"]  # the key is plain


def test_an_idempotent_producer_goes_on_behind_a_refused_batch(place: Place, topic: str) -> None:
    value = value_of(place.register(f"{topic}-value"))
    sender = confluent.Sent(place.bootstrap, enable_idempotence=True)
    for each in (value, b"plain", value, value):
        sender.send(topic, each)
        assert sender.flush_quietly(confluent.WAIT_SECONDS) == 0
    assert [error.name() for error in sender.failed] == ["INVALID_RECORD"]
    assert len(sender.delivered) == 3
    with BlockingProducer(place.bootstrap) as producer:
        for each in (value, b"plain", value):
            if each == b"plain":
                with pytest.raises(KafkaError):
                    producer.send(topic, value=each).wait()
            else:
                producer.send(topic, value=each).wait()
    assert place.values(topic, 5) == [value] * 5


def test_a_transaction_with_a_refused_record_can_only_be_aborted(place: Place, topic: str) -> None:
    value = value_of(place.register(f"{topic}-value"))
    with BlockingProducer(place.bootstrap, transactional_id="validated") as producer:
        producer.init_transactions()
        send_in_transaction(producer, topic, value)
        with pytest.raises(KafkaError):
            send_in_transaction(producer, topic, value, b"plain")
        send_in_transaction(producer, topic, value)
    assert place.values(topic, 2) == [value] * 2


def send_in_transaction(producer: BlockingProducer, topic: str, *values: bytes) -> None:
    with producer.transaction():
        for value in values:
            producer.send(topic, value=value)


def test_a_producer_waits_for_a_registry_that_is_away(place: Place, topic: str) -> None:
    """Its subject gets its first version meanwhile, from another instance of the registry."""
    place.registry.stop()
    sender = confluent.Sent(place.bootstrap, message_timeout_ms=60_000, retry_backoff_ms=200)
    with RegistryProcess(place.directory, place.bootstrap) as other:
        schema_id = place.register(f"{topic}-value", ORDER.replace("shop", topic), other.url)
        sender.send(topic, value_of(schema_id))
        assert sender.flush_quietly(1) == 1
    place.registry.start()
    sender.flush()
    assert place.values(topic, 1) == [value_of(schema_id)]


def test_validation_is_refused_where_no_registry_is_known(bootstrap: str) -> None:
    with BlockingAdmin(bootstrap) as admin, pytest.raises(KafkaError) as refused:
        admin.create_topics([NewTopic(name="unknown-registry", configs=VALIDATED)])
    assert "set confluent.schema.registry.url in the properties of each node" in str(refused.value)


def test_each_leader_of_a_replicated_topic_asks(tmp_path: Path) -> None:
    """A leader that takes over has no verdicts yet, and refuses what the first one refused."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    nodes = ClusterNodes(TIDELOG, tmp_path, {URL: url})
    registry = RegistryProcess(tmp_path, nodes.bootstrap, listeners=url)
    registry.url = url
    with nodes, registry:
        with BlockingAdmin(nodes.bootstrap) as admin:
            admin.create_topics(
                [
                    NewTopic(
                        name="orders", partition_count=1, replication_factor=3, configs=VALIDATED
                    )
                ]
            )
        nodes.wait_until_whole("orders")
        response = httpx.post(
            f"{url}/subjects/orders-value/versions", json={"schema": ORDER}, timeout=30
        )
        value = value_of(response.raise_for_status().json()["id"])
        with BlockingProducer(nodes.bootstrap) as producer:
            producer.send("orders", value=value).wait()
            nodes.kill(nodes.leader_of("orders", 0))
            producer.send("orders", value=value).wait()
            with pytest.raises(KafkaError, match="names no schema"):
                producer.send("orders", value=b"plain").wait()


def test_the_console_writes_with_the_schema_and_tells_why_plain_text_is_refused(
    place: Place, topic: str
) -> None:
    schema_id = place.register(f"{topic}-value")
    path = f"/topics/{topic}/produce"
    properties = {"schema.registry.url": place.registry.url}
    form: dict[str, Any] = {"value": '{"id": 7}', "value_subject": f"{topic}-value"}
    with (
        ConsoleProcess(place.directory, place.bootstrap, None, **properties) as console,
        Person(console.url) as person,
    ):
        assert "<option>json by schema</option>" in person.open(path)
        refused = readable(person.send(path, 400, **form, value_format="json"))
        assert "its value names no schema" in refused
        page = readable(person.send(path, **form, value_format="json by schema"))
        assert "The record was produced" in page
    assert place.values(topic, 1) == [value_of(schema_id)]
