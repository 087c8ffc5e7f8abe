"""Fetch returns the same as Apache Kafka's.

The tests have its records, their amount and order, its fields, and fetch sessions.

``tests/unit/broker/handlers/test_meant_differences.py`` holds meant differences: sizes below 0
count as 0, and an isolation level that does not exist as read_uncommitted, where Apache Kafka
responds with UNKNOWN_SERVER_ERROR.
"""

import time
from itertools import product
from typing import Any
from uuid import UUID

import pytest

from log_service.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from log_service.protocol.messages.fetch import (
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from log_service.records.compression import Codec
from tests.integration.differential import Cluster, Duel
from tests.integration.record_requests import (
    NO_ID,
    STRANGE_ID,
    THEN,
    batch,
    fetch_request,
    produce_request,
    ready_topic,
    wanted,
)

READ_COMMITTED = 1


def filled(
    duel: Duel, topic: str, partitions: int = 1, batches: int = 5, size: int = 100, **configs: str
) -> None:
    """A topic whose partitions hold that many batches of two records."""
    ready_topic(duel, topic, partitions, **configs)
    for number in range(batches):
        sent = batch(THEN + number, THEN + number, value=b"%d" % number * size)
        duel.on_both(produce_request(topic, *[sent] * partitions), 12)


def found_bytes(answer: Any) -> list[tuple[int, int]]:
    return [
        (one.partition_index, len(one.records or b""))
        for topic in answer.responses
        for one in topic.partitions
    ]


# Fields


@pytest.mark.parametrize("version", range(4, 19))
def test_all_fields_in_every_version(duel: Duel, version: int) -> None:
    topic = f"fields-{version}"
    filled(duel, topic, 2, 2)
    for isolation_level in (0, READ_COMMITTED):
        for offset in (0, 1, 3, 4):
            duel.compare(
                fetch_request(
                    topic, wanted(0, offset), wanted(1, offset), isolation_level=isolation_level
                ),
                version,
            )


@pytest.mark.parametrize("version", [4, 5, 9, 11, 12, 13, 16, 18])
def test_offsets_and_epochs_that_are_not_there(duel: Duel, version: int) -> None:
    topic = f"absent-{version}"
    filled(duel, topic, 1, 2)
    for offset in (-1, 5, 2**62, -(2**63)):
        duel.compare(fetch_request(topic, wanted(0, offset)), version)
        duel.compare(
            fetch_request(topic, wanted(0, offset), isolation_level=READ_COMMITTED), version
        )
    if version >= 9:
        for epoch in (1, 7, -2):
            duel.compare(fetch_request(topic, wanted(0, 0, current_leader_epoch=epoch)), version)
    if version >= 12:
        for last_epoch in (0, 1, 7, -2):
            for offset in (0, 4, 5, 9):
                duel.compare(
                    fetch_request(topic, wanted(0, offset, last_fetched_epoch=last_epoch)), version
                )
    duel.compare(fetch_request(topic, wanted(1), wanted(0), wanted(-1)), version)


@pytest.mark.parametrize("version", [12, 18])
def test_epochs_of_reader_and_leader_are_both_looked_at(duel: Duel, version: int) -> None:
    topic = f"epochs-{version}"
    filled(duel, topic, 1, 2)
    trimmed = [
        DeleteRecordsTopic(
            name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=2)]
        )
    ]
    duel.on_both(DeleteRecordsRequest(topics=trimmed, timeout_ms=10_000), 2)
    for current, last, offset in product((-1, 0, 1), (0, 1), (0, 2, 9)):
        asked = wanted(0, offset, current_leader_epoch=current, last_fetched_epoch=last)
        duel.compare(fetch_request(topic, asked, isolation_level=READ_COMMITTED), version)


def test_below_the_start(duel: Duel) -> None:
    filled(duel, "trimmed", 1, 4)
    topics = [
        DeleteRecordsTopic(
            name="trimmed", partitions=[DeleteRecordsPartition(partition_index=0, offset=3)]
        )
    ]
    duel.on_both(DeleteRecordsRequest(topics=topics, timeout_ms=10_000), 2)
    for version in (4, 11, 16):
        for offset in (0, 2, 3, 4):
            duel.compare(fetch_request("trimmed", wanted(0, offset)), version)


@pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
def test_topics_that_are_not_there(duel: Duel, version: int) -> None:
    duel.compare(fetch_request("nowhere"), version)

    def strange(_: Cluster) -> FetchRequest:
        request: FetchRequest = fetch_request("nowhere")(_)
        request.topics[0].topic_id = STRANGE_ID
        return request

    duel.compare(strange, version)


def test_a_topic_that_was_deleted_and_created_again(duel: Duel) -> None:
    filled(duel, "again", 1, 1)
    old = {cluster.bootstrap: cluster.topic_id("again") for cluster in duel.clusters.sides()}
    duel.on_both(DeleteTopicsRequest(topics=[DeleteTopicState(name="again")], timeout_ms=10_000), 6)

    def by_old_id(cluster: Cluster) -> FetchRequest:
        partition = wanted()
        topics = [FetchTopic(topic="", topic_id=old[cluster.bootstrap], partitions=[partition])]
        return FetchRequest(
            topics=topics, replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20
        )

    duel.until(by_old_id, 13, lambda answer: answer.responses[0].partitions[0].error_code == 100)
    duel.compare(by_old_id, 13)
    ready_topic(duel, "again")
    duel.compare(by_old_id, 13)
    duel.compare(fetch_request("again"), 13)


def test_a_partition_that_is_named_twice(duel: Duel) -> None:
    filled(duel, "twice", 2, 2)
    duel.compare(fetch_request("twice", wanted(0, 0), wanted(0, 3)), 11)
    duel.compare(fetch_request("twice", wanted(0, 3), wanted(1, 0), wanted(0, 0)), 13)


# Sizes


@pytest.mark.parametrize("version", [4, 12])
def test_a_topic_without_a_name(duel: Duel, version: int) -> None:
    duel.compare(fetch_request(""), version)
    duel.compare(fetch_request("", wanted(0), wanted(1)), version)


@pytest.mark.parametrize("version", [11, 17])
def test_partitions_are_told_in_the_order_they_were_asked_for(duel: Duel, version: int) -> None:
    """A topic has as many heads as that takes; what is not there comes last."""
    first, second = f"first-{version}", f"second-{version}"
    for topic in (first, second):
        filled(duel, topic, 2, 1)

    def build(cluster: Cluster) -> FetchRequest:
        asked = (
            (first, 0),
            (first, 7),
            (second, 0),
            (first, 1),
            (second, 1),
            (second, 9),
            (first, 8),
        )
        topics = [
            FetchTopic(topic=name, topic_id=cluster.topic_id(name), partitions=[wanted(index)])
            for name, index in asked
        ]
        return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics)

    duel.compare(build, version, ordered=True)


@pytest.mark.parametrize("version", [13, 17])
def test_ids_that_nobody_knows_come_before_partitions_that_are_not_there(
    duel: Duel, version: int
) -> None:
    topic = f"some-{version}"
    filled(duel, topic, 1, 1)

    def build(cluster: Cluster) -> FetchRequest:
        known = cluster.topic_id(topic)
        asked = (
            (known, 7),
            (STRANGE_ID, 0),
            (known, 0),
            (UUID(int=7), 1),
            (known, 8),
            (STRANGE_ID, 1),
        )
        topics = [
            FetchTopic(topic_id=topic_id, partitions=[wanted(index)]) for topic_id, index in asked
        ]
        return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics)

    duel.compare(build, version, ordered=True)


@pytest.mark.parametrize("left_bytes", [-1, 0, 1, 100])
def test_what_is_said_of_aborted_records_where_a_batch_is_too_large(
    duel: Duel, left_bytes: int
) -> None:
    topic = f"too-large{left_bytes}"
    filled(duel, topic, 2, 1)
    sizes = dict(found_bytes(duel.compare(fetch_request(topic, wanted(0), wanted(1)), 12)))
    for isolation_level in (0, READ_COMMITTED):
        both = wanted(0), wanted(1)
        request = fetch_request(
            topic, *both, max_bytes=sizes[0] + left_bytes, isolation_level=isolation_level
        )
        duel.compare(request, 12)
        both = wanted(0), wanted(1, partition_max_bytes=max(left_bytes, 0))
        duel.compare(fetch_request(topic, *both, isolation_level=isolation_level), 12)


def test_the_first_batch_is_always_returned_and_no_part_of_another(duel: Duel) -> None:
    filled(duel, "sizes", 3, 4, 500)
    size = len(batch(THEN, THEN, value=b"x" * 500))
    three = [wanted(index) for index in range(3)]
    for max_bytes in (
        0,
        1,
        size - 1,
        size,
        size + 1,
        2 * size,
        4 * size - 1,
        4 * size,
        4 * size + 1,
        5 * size,
        9 * size,
    ):
        for version in (4, 11, 13):
            duel.compare(fetch_request("sizes", *three, max_bytes=max_bytes), version, ordered=True)
    for most in (0, 1, size - 1, size, size + 1, 3 * size):
        parts = [wanted(index, partition_max_bytes=most) for index in range(3)]
        duel.compare(fetch_request("sizes", *parts), 11, ordered=True)
        duel.compare(fetch_request("sizes", *parts, max_bytes=2 * size), 11, ordered=True)
    duel.compare(fetch_request("sizes", *three[::-1], max_bytes=5 * size), 11, ordered=True)


def test_the_bound_of_the_segment(duel: Duel) -> None:
    """An answer never crosses segments."""
    filled(duel, "segments", 1, 8, 100_000, segment_bytes="1048576")
    for offset in (0, 5, 8, 9, 10, 11, 15, 16):
        duel.compare(
            fetch_request(
                "segments", wanted(0, offset, partition_max_bytes=10_000_000), max_bytes=10_000_000
            ),
            11,
        )


def test_zstd_for_fetchers_of_old(duel: Duel) -> None:
    ready_topic(duel, "zstd-by-producer")
    duel.on_both(produce_request("zstd-by-producer", batch(codec=Codec.ZSTD)), 12)
    ready_topic(duel, "zstd-by-topic", compression_type="zstd")
    duel.on_both(produce_request("zstd-by-topic", batch(codec=Codec.ZSTD)), 12)
    for version in (4, 9, 10, 13):
        duel.compare(fetch_request("zstd-by-producer"), version)
        duel.compare(fetch_request("zstd-by-topic"), version)


# Waiting


def test_what_makes_an_answer_come_at_once(duel: Duel) -> None:
    """Each would be answered after 30 s else."""
    filled(duel, "waits", 1, 2, 100)
    size = len(batch(THEN, THEN, value=b"x" * 100))
    wait: dict[str, Any] = {"max_wait_ms": 30_000}
    duel.compare(fetch_request("waits", min_bytes=2 * size, **wait), 11)
    duel.compare(fetch_request("waits", min_bytes=10_000, max_bytes=100, **wait), 11)
    duel.compare(fetch_request("waits", wanted(0, 99), min_bytes=10_000, **wait), 11)
    duel.compare(fetch_request("waits", wanted(9), min_bytes=10_000, **wait), 11)
    duel.compare(fetch_request("waits", wanted(0, 4), min_bytes=0, **wait), 11)
    duel.compare(fetch_request("waits", wanted(0, 4), min_bytes=-1, **wait), 11)
    duel.compare(
        fetch_request("waits", wanted(0, 4, last_fetched_epoch=7), min_bytes=10_000, **wait), 12
    )
    duel.compare(FetchRequest(replica_id=-1, min_bytes=1, max_bytes=1 << 20, **wait), 11)


def test_a_partition_that_is_not_there_lets_the_others_wait(duel: Duel) -> None:
    filled(duel, "patient", 1, 2, 100)
    began = time.monotonic()
    duel.compare(
        fetch_request("patient", wanted(0), wanted(9), min_bytes=10_000, max_wait_ms=400), 11
    )
    assert time.monotonic() - began >= 0.4 * len(duel.clusters.sides())


def test_a_wait_ends_after_its_time(duel: Duel) -> None:
    filled(duel, "ends", 1, 2, 100)
    for wait in (50, 0, -1):
        duel.compare(fetch_request("ends", wanted(0, 4), max_wait_ms=wait), 11)
        duel.compare(fetch_request("ends", wanted(0, 0), min_bytes=10_000, max_wait_ms=wait), 11)


# Replicas


@pytest.mark.parametrize("version", [4, 11, 12, 15, 17])
def test_replicas_that_there_are_not(duel: Duel, version: int) -> None:
    topic = f"replicas-{version}"
    filled(duel, topic, 1, 1)
    for replica_id in (0, 1, 2, 77, -2, -3):
        state = ReplicaState(replica_id=replica_id, replica_epoch=-1)
        for epoch in (-1, 0, 1) if version >= 9 else (-1,):
            asked = {"replica_state": state} if version >= 15 else {"replica_id": replica_id}
            duel.compare(fetch_request(topic, wanted(current_leader_epoch=epoch), **asked), version)


def test_a_rack_changes_nothing_where_there_is_one_replica(duel: Duel) -> None:
    filled(duel, "racks", 1, 1)
    for rack in ("", "RACK1", "elsewhere"):
        duel.compare(fetch_request("racks", rack_id=rack), 11)


# Sessions


class Session:
    """A fetch session on each side."""

    def __init__(self, duel: Duel, topic: str, version: int = 12) -> None:
        self.duel, self.topic, self.version = duel, topic, version
        self.ids: dict[str, int] = {}

    def ask(
        self,
        *partitions: Any,
        epoch: int,
        forget: tuple[int, ...] = (),
        session_id: int | None = None,
        **more: Any,
    ) -> Any:
        """The next request of the session, and its answer compared; without partitions it names
        none.
        """
        topic = self.topic

        def build(cluster: Cluster) -> FetchRequest:
            request: FetchRequest = fetch_request(topic, *partitions, **more)(cluster)
            if not partitions:
                request.topics = []
            if forget:
                request.forgotten_topics_data = [
                    ForgottenTopic(
                        topic=topic,
                        topic_id=cluster.topic_ids.get(topic, NO_ID),
                        partitions=list(forget),
                    )
                ]
            request.session_epoch = epoch
            request.session_id = (
                self.ids.get(cluster.bootstrap, 0) if session_id is None else session_id
            )
            return request

        return self.duel.compare(build, self.version, ignore={"session_id"})

    def start(self, *partitions: Any, **more: Any) -> None:
        """Begin on both sides, and look at both answers."""
        for cluster in self.duel.clusters.sides():
            request: FetchRequest = fetch_request(self.topic, *partitions, **more)(cluster)
            if not partitions:
                request.topics = []
            request.session_epoch = 0
            self.ids[cluster.bootstrap] = cluster.ask(request, self.version).session_id
        assert all(self.ids.values()), "no session was given"


@pytest.mark.parametrize("version", [7, 12, 13, 17])
def test_a_session_tells_what_changed(duel: Duel, version: int) -> None:
    topic = f"session-{version}"
    filled(duel, topic, 3, 2)
    session = Session(duel, topic, version)
    session.start(wanted(0, 4), wanted(1, 4), wanted(2, 4))
    session.ask(epoch=1)
    duel.on_both(produce_request(topic, batch()), 12)
    session.ask(epoch=2)
    session.ask(epoch=3)
    session.ask(wanted(0, 5), epoch=4)
    session.ask(wanted(2, 0), epoch=5)
    session.ask(epoch=6, forget=(2,))
    session.ask(wanted(1, 99), epoch=7)
    session.ask(epoch=8)
    session.ask(wanted(1, 4), epoch=9)
    session.ask(epoch=10)
    session.ask(wanted(7, 0), epoch=11)
    session.ask(epoch=12)
    session.ask(epoch=13, forget=(0, 1, 7))
    session.ask(epoch=14)


def test_sessions_that_are_not_there_and_epochs_that_are_wrong(duel: Duel) -> None:
    filled(duel, "wrong", 2, 1)
    session = Session(duel, "wrong")
    session.ask(epoch=1, session_id=0)
    session.ask(epoch=5, session_id=4711)
    session.ask(wanted(), epoch=5, session_id=4711)
    session.ask(epoch=-1, session_id=4711)
    session.ask(wanted(), epoch=-1, session_id=0)
    session.ask(wanted(), epoch=-1, session_id=4711)
    session.start(wanted(0, 2))
    session.ask(epoch=2)
    session.ask(epoch=0)
    session.start(wanted(0, 2))
    session.ask(epoch=1)
    session.ask(epoch=1)
    session.ask(epoch=-2)
    session.ask(epoch=2)
    session.ask(wanted(0, 0), epoch=-1)
    session.ask(epoch=3)


def test_a_session_without_partitions(duel: Duel) -> None:
    request = FetchRequest(replica_id=-1, max_wait_ms=0, session_epoch=0)
    assert all(cluster.ask(request, 12).session_id for cluster in duel.clusters.sides()), (
        "it gets one, too"
    )
    duel.compare(request, 12, ignore={"session_id"})


def test_a_session_that_forgets_its_last_partition_ends(duel: Duel) -> None:
    """A partition that is forgotten and named in one request is still served, as without a session."""
    filled(duel, "forgets", 2, 1)
    session = Session(duel, "forgets")
    session.start(wanted(0, 2))
    session.ask(epoch=1, forget=(1,))
    session.ask(wanted(1, 2), epoch=2, forget=(1,))
    session.ask(wanted(0, 2), epoch=3, forget=(0,))
    session.ask(epoch=4)


def test_a_session_keeps_to_names_or_to_ids(duel: Duel) -> None:
    filled(duel, "kinds", 1, 1)
    session = Session(duel, "kinds", 12)
    session.start(wanted(0, 2))
    session.version = 13
    session.ask(epoch=1)
    session.version = 12
    session.ask(epoch=1)
    session.ask(epoch=2)
    session.version = 13
    session.start(wanted(0, 2))
    session.version = 12
    session.ask(epoch=1)


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_goes_while_a_session_reads_it(duel: Duel, version: int) -> None:
    topic = f"goes-{version}"
    filled(duel, topic, 1, 1)
    session = Session(duel, topic, version)
    session.start(wanted(0, 2), wanted(5, 0))
    duel.on_both(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000), 6)
    code = 3 if version == 12 else 100
    duel.until(
        fetch_request(topic),
        version,
        lambda answer: answer.responses[0].partitions[0].error_code == code,
    )
    session.ask(epoch=1)
    session.ask(epoch=2)
    ready_topic(duel, topic)
    session.ask(epoch=3)
    session.ask(epoch=4)


def test_the_partitions_of_a_session_take_turns(duel: Duel) -> None:
    filled(duel, "turns", 4, 4, 1000)
    size = len(batch(THEN, THEN, value=b"x" * 1000))
    session = Session(duel, "turns")
    parts = [wanted(index, 0) for index in range(4)]
    session.start(*parts, max_bytes=size)
    for epoch in range(1, 10):
        answer = session.ask(epoch=epoch, max_bytes=size)
        assert sum(count for _, count in found_bytes(answer)) == size
