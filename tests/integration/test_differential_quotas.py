"""Quotas of clients are the same on tidelog and on Apache Kafka.

The tests set them, show them, and have clients throttled.
"""

import time
from collections import Counter
from typing import Any

import pytest

from log_service.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from log_service.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from log_service.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from log_service.records.builder import BatchBuilder
from tests.integration.differential import Cluster, Duel
from tests.integration.wire import Wire

pytestmark = pytest.mark.timeout(120)

PROPERTIES: dict[str, str] = {}
"""Quotas of a module of their own: others must not be throttled."""

EXACT, DEFAULT, ANY = range(3)
Parts = tuple[tuple[str, str | None], ...]
ROUNDING_MS = 60
"""A request's size, and the moment in a window, differ a little."""


def entry(parts: Parts, *changes: tuple[str, float | None]) -> RequestEntryData:
    return RequestEntryData(
        entity=[RequestEntityData(entity_type=kind, entity_name=name) for kind, name in parts],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in changes],
    )


def alter(*entries: RequestEntryData, validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)


def show(
    *components: tuple[str, int, str | None], strict: bool = False
) -> DescribeClientQuotasRequest:
    filters = [
        ComponentData(entity_type=kind, match_type=how, match=name)
        for kind, how, name in components
    ]
    return DescribeClientQuotasRequest(components=filters, strict=strict)


def forget(duel: Duel) -> None:
    """Remove all quotas on both sides, and wait until they are gone."""
    for cluster in duel.clusters.sides():
        found = cluster.ask(show(), 1).entries
        entries = [
            RequestEntryData(
                entity=[
                    RequestEntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in each.entity
                ],
                ops=[OpData(key=value.key, remove=True) for value in each.values],
            )
            for each in found
        ]
        if entries:
            cluster.ask(alter(*entries), 1)
    until_shown(duel, 0)


def until_shown(duel: Duel, count: int) -> None:
    """Wait until both sides have so many entities with quotas."""
    duel.until(show(), 1, lambda response: len(response.entries) == count)


USER: Parts = (("user", "someone"),)
ENTITIES: list[Parts] = [
    (("user", "alice"),),
    (("user", "bob"),),
    (("user", None),),
    (("client-id", "c"),),
    (("client-id", None),),
    (("user", "alice"), ("client-id", "c")),
    (("user", "alice"), ("client-id", None)),
    (("user", None), ("client-id", None)),
    (("ip", "10.1.2.3"),),
    (("ip", None),),
]


def key_of(parts: Parts) -> str:
    return "connection_creation_rate" if parts[0][0] == "ip" else "producer_byte_rate"


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("parts", "changes"),
    [
        ((), [("producer_byte_rate", 1)]),
        ((("group", "g"),), [("producer_byte_rate", 1)]),
        ((("user", ""),), [("producer_byte_rate", 1)]),
        ((("ip", "1.2.3.4"), ("user", "u")), [("connection_creation_rate", 1)]),
        ((("ip", "1.2.3.4"),), [("producer_byte_rate", 1)]),
        ((("ip", "1.2.3.4"),), [("connection_creation_rate", 1.5)]),
        ((("ip", "::1"),), [("connection_creation_rate", 5)]),
        (USER, [("connection_creation_rate", 1)]),
        (USER, [("no_such_quota", 1)]),
        (USER, [("producer_byte_rate", -1)]),
        (USER, [("producer_byte_rate", 1e-9)]),
        (USER, [("consumer_byte_rate", 1.5)]),
        (USER, [("consumer_byte_rate", 1.0000001)]),
        (USER, [("consumer_byte_rate", 2.0**63)]),
        (USER, [("consumer_byte_rate", 1e300)]),
        (USER, [("request_percentage", 0.25)]),
        (USER, [("request_percentage", -0.25)]),
        (USER, [("controller_mutation_rate", 0.25)]),
        (USER, [("producer_byte_rate", 1), ("producer_byte_rate", 2)]),
        (USER, [("producer_byte_rate", None)]),
        (USER, [("no_such_quota", None)]),
        (USER, []),
        ((("user", "a"), ("user", "b")), [("producer_byte_rate", 1)]),
    ],
    ids=lambda value: repr(value)[:60] if isinstance(value, tuple | list) else None,
)
def test_what_can_be_set(
    duel: Duel, parts: Parts, changes: list[tuple[str, float | None]], version: int
) -> None:
    duel.compare(alter(entry(parts, *changes), validate_only=True), version)


def test_an_entity_that_is_named_twice(duel: Duel) -> None:
    duel.compare(
        alter(
            entry(USER, ("producer_byte_rate", 1)),
            entry(USER, ("consumer_byte_rate", 1)),
            validate_only=True,
        ),
        1,
    )


def test_one_entity_fails_by_itself(duel: Duel) -> None:
    forget(duel)
    duel.compare(
        alter(
            entry(USER, ("producer_byte_rate", -1)),
            entry((("user", "fine"),), ("producer_byte_rate", 5)),
        ),
        1,
    )
    until_shown(duel, 1)
    duel.compare(show(), 1)
    forget(duel)


def test_what_is_shown(duel: Duel) -> None:
    forget(duel)
    duel.compare(
        alter(
            *(
                entry(parts, (key_of(parts), 1_000.0 + number))
                for number, parts in enumerate(ENTITIES)
            )
        ),
        1,
    )
    until_shown(duel, len(ENTITIES))
    filters: list[tuple[tuple[str, int, str | None], ...]] = [
        (),
        (("user", EXACT, "alice"),),
        (("user", DEFAULT, None),),
        (("user", ANY, None),),
        (("client-id", ANY, None),),
        (("user", ANY, None), ("client-id", ANY, None)),
        (("user", EXACT, "alice"), ("client-id", DEFAULT, None)),
        (("ip", ANY, None),),
        (("ip", EXACT, "10.1.2.3"),),
        (("user", EXACT, "nobody"),),
    ]
    for components in filters:
        for strict in (False, True):
            for version in (0, 1):
                duel.compare(show(*components, strict=strict), version)
    forget(duel)


@pytest.mark.parametrize(
    "components",
    [
        (("", EXACT, "a"),),
        (("group", EXACT, "a"),),
        (("user", EXACT, "a"), ("user", DEFAULT, None)),
        (("user", EXACT, None),),
        (("user", DEFAULT, "a"),),
        (("user", ANY, "a"),),
        (("user", 7, "a"),),
        (("ip", ANY, None), ("user", ANY, None)),
    ],
    ids=repr,
)
def test_filters_that_make_no_sense(
    duel: Duel, components: tuple[tuple[str, int, str | None], ...]
) -> None:
    for version in (0, 1):
        duel.compare(show(*components), version)


# Throttling: of each side by itself, because times differ a little


def set_quota(duel: Duel, parts: Parts, key: str, value: float) -> None:
    """Set one quota on both sides, and no other, and wait until it holds."""
    forget(duel)
    duel.on_both(alter(entry(parts, (key, value))), 1)
    until_shown(duel, 1)
    time.sleep(0.2)


def payload(size_bytes: int) -> bytes:
    builder = BatchBuilder()
    builder.append(1_700_000_000_000, None, bytes(size_bytes))
    return bytes(builder.build())


def produce(topic: str, size_bytes: int, acks: int = -1) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=payload(size_bytes))
    return ProduceRequest(
        acks=acks,
        timeout_ms=5_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[partition])],
    )


def fetch(topic: str, offset: int, epoch: int = -1, session_id: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=46_000)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=epoch,
        session_id=session_id,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def test_a_burst_of_a_producer(duel: Duel) -> None:
    duel.create_topic("burst")
    for key, parts in (
        ("producer_byte_rate", (("user", None),)),
        ("producer_byte_rate", (("client-id", "wire"),)),
    ):
        set_quota(duel, parts, key, 5_000)
        for cluster in duel.clusters.sides():
            with Wire(cluster.bootstrap) as wire:
                began = time.monotonic()
                first = wire.ask(produce("burst", 52_000), 9)
                assert time.monotonic() - began < 1
                assert abs(first.throttle_time_ms - 420) <= ROUNDING_MS, cluster
                second = wire.ask(produce("burst", 10), 9)
                assert time.monotonic() - began >= first.throttle_time_ms / 1_000 - 0.05
                assert second.throttle_time_ms <= 100
    forget(duel)


def test_a_fetch_beyond_the_rate_is_empty_and_not_counted(duel: Duel) -> None:
    duel.create_topic("read")
    for _ in range(4):
        duel.on_both(produce("read", 45_000), 9)
    set_quota(duel, (("client-id", "wire"),), "consumer_byte_rate", 5_000)
    for cluster in duel.clusters.sides():
        with Wire(cluster.bootstrap) as wire:
            first = wire.ask(fetch("read", 0, 0), 12)
            assert first.throttle_time_ms == 0
            assert len(first.responses[0].partitions[0].records) > 45_000
            second = wire.ask(fetch("read", 1, 1, first.session_id), 12)
            assert 7_500 <= second.throttle_time_ms * 1 <= 8_600, cluster
            assert second.responses == []
            assert second.session_id == first.session_id
        with Wire(cluster.bootstrap) as wire:
            third = wire.ask(fetch("read", 1), 12)
            assert abs(third.throttle_time_ms - second.throttle_time_ms) < 700, (
                "what is not sent is not counted"
            )
            assert third.session_id == 0
    forget(duel)


def create(name: str, partitions: int = 1, *, validate_only: bool = False) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=5_000, validate_only=validate_only)


def outcome(response: Any, results: str) -> tuple[list[int], int]:
    return [each.error_code for each in getattr(response, results)], response.throttle_time_ms


def on_a_connection_each(
    cluster: Cluster, *asked: tuple[Any, int, str]
) -> list[tuple[list[int], int]]:
    """Ask over connections of their own, which no pause of another one holds up."""
    told = []
    for request, version, results in asked:
        with Wire(cluster.bootstrap) as wire:
            told.append(outcome(wire.ask(request, version), results))
    return told


def test_partitions_beyond_the_rate(duel: Duel) -> None:
    duel.create_topic("there", 2)
    set_quota(duel, (("client-id", "wire"),), "controller_mutation_rate", 0.1)
    more = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="there", count=3, assignments=None)], timeout_ms=5_000
    )
    drop = DeleteTopicsRequest(topics=[DeleteTopicState(name="there")], timeout_ms=5_000)
    for cluster in duel.clusters.sides():
        told = on_a_connection_each(
            cluster,
            (create("first"), 7, "topics"),
            (create("second"), 7, "topics"),
            (create("third"), 7, "topics"),
            (more, 3, "results"),
            (drop, 6, "responses"),
            (create("fourth"), 5, "topics"),
            (more, 2, "results"),
            (DeleteTopicsRequest(topic_names=["there"], timeout_ms=5_000), 4, "responses"),
        )
        assert [codes for codes, _ in told] == [[0], [0], [89], [89], [89], [0], [0], [0]], cluster
        expected = [0, 0, 8_900, 8_900, 8_900, 18_900, 28_900, 58_900]
        assert all(
            abs(throttle_ms - wanted_ms) <= 800
            for (_, throttle_ms), wanted_ms in zip(told, expected, strict=True)
        ), (cluster, told)
    forget(duel)


def test_what_is_only_validated_or_refused_is_charged_alike(duel: Duel) -> None:
    # No other test has used up something of this one.
    set_quota(duel, (("user", "ANONYMOUS"),), "controller_mutation_rate", 0.1)

    def tell(cluster: Cluster) -> list[list[int]]:
        asked = [
            (create("bad/name", 100), 7, "topics"),
            (create("checked", 5, validate_only=True), 7, "topics"),
            (create("made", 1), 7, "topics"),
            (create("checked", 5, validate_only=True), 7, "topics"),
        ]
        return [codes for codes, _ in on_a_connection_each(cluster, *asked)]

    duel.compare_told(tell)
    forget(duel)


PRECEDENCE: list[Parts] = [
    (("user", "ANONYMOUS"), ("client-id", "wire")),
    (("user", "ANONYMOUS"), ("client-id", None)),
    (("user", "ANONYMOUS"),),
    (("user", None), ("client-id", "wire")),
    (("user", None), ("client-id", None)),
    (("user", None),),
    (("client-id", "wire"),),
    (("client-id", None),),
]


SHARES = ["both", "both", "user", "both", "both", "user", "client", "client"]
"""With whom each is shared: those that use up a quota by the same names use it up together,
whatever sets it.
"""
STEP = 1.5


def test_the_order_in_which_quotas_hold(duel: Duel) -> None:
    """All quotas are set, each half as large again as the one before, and taken away from the first
    on.

    A burst tells which holds.
    """
    duel.create_topic("ordered")
    forget(duel)
    bounds = [round(2_000 * STEP**number) for number in range(len(PRECEDENCE))]
    time.sleep(12)  # what the tests before have used is forgotten
    duel.on_both(
        alter(
            *(
                entry(parts, ("producer_byte_rate", bound))
                for parts, bound in zip(PRECEDENCE, bounds, strict=True)
            )
        ),
        1,
    )
    until_shown(duel, len(PRECEDENCE))
    used: Counter[tuple[str, str]] = Counter()
    for number, (parts, bound) in enumerate(zip(PRECEDENCE, bounds, strict=True)):
        time.sleep(0.2)
        for cluster in duel.clusters.sides():
            used[cluster.bootstrap, SHARES[number]] += int(bound * 10 * STEP)
            with Wire(cluster.bootstrap) as wire:
                throttle_ms = wire.ask(
                    produce("ordered", int(bound * 10 * STEP)), 9
                ).throttle_time_ms
            needed_ms = used[cluster.bootstrap, SHARES[number]] / bound * 1_000
            assert needed_ms - 12_000 <= throttle_ms <= needed_ms - 10_000 + ROUNDING_MS, (
                cluster,
                parts,
            )
        duel.on_both(alter(entry(parts, ("producer_byte_rate", None))), 1)
        until_shown(duel, len(PRECEDENCE) - number - 1)
