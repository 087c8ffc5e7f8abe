"""ShareFetch and ShareAcknowledge work as in Apache Kafka (KIP-932).

The tests have sessions, acquired and acknowledged records, and every refusal.

The states of the groups are begun by the request that brokers use; no member joins a group, and
neither product asks for that.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from log_service.common.features import SHARE_VERSION
from log_service.metadata import features
from log_service.protocol.messages import initialize_share_group_state as initializing
from log_service.protocol.messages import read_share_group_state_summary as summarizing
from log_service.protocol.messages import share_acknowledge as acknowledging
from log_service.protocol.messages import share_fetch as fetching
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.storage.partition_metadata import format_uuid
from tests.helpers.broker_process import BrokerThread
from tests.integration.client_clusters import APACHE_KAFKA, cluster
from tests.integration.differential import Cluster, Clusters, Duel
from tests.integration.record_requests import THEN, batch, produce_request
from tests.integration.wire import Wire

PROPERTIES = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.delivery.count.limit": "4",
}
NOBODY = UUID(int=77)
ACCEPT, RELEASE, REJECT, GAP, RENEW = 1, 2, 3, 0, 4
WAIT_MS = 2_000
Ack = tuple[int, int, Sequence[int]]


@pytest.fixture(scope="module")
def clusters(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clusters]:
    """Both with share groups from the start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(features.SUPPORTED_FEATURES, SHARE_VERSION, (0, 1))
        patch.setitem(features.FIRST_LEVELS, SHARE_VERSION, 1)
        with (
            BrokerThread(tmp_path_factory.mktemp("tidelog"), properties=PROPERTIES) as broker,
            Wire(broker.bootstrap) as wire,
        ):
            ours = Cluster(bootstrap=broker.bootstrap, wire=wire)
            if request.param == "recorded":
                yield Clusters(tidelog=ours, kafka=None)
                return
            with (
                cluster(APACHE_KAFKA, tmp_path_factory.mktemp("kafka"), PROPERTIES) as address,
                Wire(address) as kafka,
            ):
                yield Clusters(tidelog=ours, kafka=Cluster(bootstrap=address, wire=kafka))


@pytest.fixture
def shared(duel: Duel, request: pytest.FixtureRequest) -> "Shared":
    """A topic and a group of the test's own, with five records in three batches."""
    case = (
        request.node.name.removeprefix("test_").replace("apache-kafka", "").replace("recorded", "")
    )
    name = re.sub(r"[^a-z0-9]+", "-", case).strip("-")
    found = Shared(duel, name)
    found.begin()
    for count in (1, 2, 2):
        found.produce(count)
    return found


class Shared:
    """One group on one topic, at both sides."""

    def __init__(self, duel: Duel, name: str) -> None:
        self.duel = duel
        self.name = self.group_id = name
        self.epochs: dict[str, int] = {}

    def begin(self) -> None:
        self.duel.create_topic(self.name)
        for side in self.duel.clusters.sides():
            key = f"{self.name}:{format_uuid(side.topic_id(self.name))}:0"
            asked = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
            self._until(
                side,
                partial(_the_same, asked),
                6,
                lambda response: response.coordinators[0].error_code == 0,
            )
            self._until(
                side,
                self._summary,
                0,
                lambda response: response.results[0].partitions[0].error_code == 0,
            )
            partition = initializing.PartitionData(partition=0, state_epoch=1, start_offset=0)
            topic = initializing.InitializeStateData(
                topic_id=side.topic_id(self.name), partitions=[partition]
            )
            begun = side.ask(
                initializing.InitializeShareGroupStateRequest(group_id=self.name, topics=[topic]), 0
            )
            assert begun.results[0].partitions[0].error_code == 0, begun

    def _summary(self, side: Cluster) -> Any:
        asked = summarizing.ReadStateSummaryData(
            topic_id=side.topic_id(self.name), partitions=[summarizing.PartitionData(partition=0)]
        )
        return summarizing.ReadShareGroupStateSummaryRequest(group_id=self.name, topics=[asked])

    def _until(
        self,
        side: Cluster,
        request: Callable[[Cluster], Any],
        version: int,
        is_there: Callable[[Any], bool],
    ) -> None:
        Duel.until(Duel(Clusters(tidelog=side, kafka=None), None, ""), request, version, is_there)  # type: ignore[arg-type]

    def produce(self, count: int) -> None:
        self.duel.on_both(produce_request(self.name, batch(*[THEN] * count)), 9)

    # Requests

    def fetching(
        self,
        member: str,
        *,
        epoch: int | None = None,
        acks: Sequence[Ack] = (),
        partitions: Sequence[int] | None = None,
        unknown: bool = False,
        **wanted: Any,
    ) -> Callable[[Cluster], fetching.ShareFetchRequest]:
        number = self.epochs.get(member, 0) if epoch is None else epoch
        if epoch is None:
            self.epochs[member] = number + 1
        filled = {
            "max_wait_ms": WAIT_MS,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            **wanted,
        }
        batches = [
            fetching.AcknowledgementBatch(
                first_offset=a, last_offset=b, acknowledge_types=list(types)
            )
            for a, b, types in acks
        ]
        indexes = partitions if partitions is not None else ([0] if number == 0 or acks else [])

        def request(side: Cluster) -> fetching.ShareFetchRequest:
            topics = []
            if indexes:
                told = {each: batches if each == 0 else [] for each in indexes}
                asked = [
                    fetching.FetchPartition(partition_index=each, acknowledgement_batches=some)
                    for each, some in told.items()
                ]
                topics.append(
                    fetching.FetchTopic(topic_id=side.topic_id(self.name), partitions=asked)
                )
            if unknown:
                topics.append(
                    fetching.FetchTopic(
                        topic_id=NOBODY, partitions=[fetching.FetchPartition(partition_index=0)]
                    )
                )
            return fetching.ShareFetchRequest(
                group_id=self.group_id,
                member_id=member,
                share_session_epoch=number,
                topics=topics,
                **filled,
            )

        return request

    def fetch(
        self, member: str, *, version: int = 2, ignore: Sequence[str] = (), **wanted: Any
    ) -> Any:
        return self.duel.compare(self.fetching(member, **wanted), version, ignore=ignore)

    def acknowledge(
        self,
        member: str,
        *acks: Ack,
        epoch: int | None = None,
        version: int = 2,
        is_renewing: bool = False,
        ignore: Sequence[str] = ("error_message",),
        partition: int = 0,
        unknown: bool = False,
        empty: bool = False,
    ) -> Any:
        number = self.epochs.get(member, 0) if epoch is None else epoch
        if epoch is None:
            self.epochs[member] = number + 1
        batches = [
            acknowledging.AcknowledgementBatch(
                first_offset=a, last_offset=b, acknowledge_types=list(types)
            )
            for a, b, types in acks
        ]

        def request(side: Cluster) -> acknowledging.ShareAcknowledgeRequest:
            topics = []
            if acks or empty:
                one = acknowledging.AcknowledgePartition(
                    partition_index=partition, acknowledgement_batches=batches
                )
                topics.append(
                    acknowledging.AcknowledgeTopic(
                        topic_id=NOBODY if unknown else side.topic_id(self.name), partitions=[one]
                    )
                )
            return acknowledging.ShareAcknowledgeRequest(
                group_id=self.group_id,
                member_id=member,
                share_session_epoch=number,
                is_renew_ack=is_renewing,
                topics=topics,
            )

        return self.duel.compare(request, version, ignore=ignore)


def _the_same(asked: Any, _side: Cluster) -> Any:
    return asked


TEXTS = ("error_message", "acknowledge_error_message")
"""Whether there is a text for an error, and which, differs; codes do not."""


@pytest.mark.parametrize("version", [1, 2])
def test_members_and_groups_that_cannot_be(shared: Shared, version: int) -> None:
    for member in ("", "x" * 37, "x" * 36):
        shared.fetch(member, epoch=0, version=version, ignore=TEXTS, max_wait_ms=0, max_records=0)
        shared.acknowledge(member, epoch=-1, version=version)
    shared.duel.compare(
        fetching.ShareFetchRequest(group_id=None, member_id="m"), version, ignore=TEXTS
    )
    shared.duel.compare(
        acknowledging.ShareAcknowledgeRequest(group_id=None, member_id="m"), version, ignore=TEXTS
    )
    shared.duel.compare(
        fetching.ShareFetchRequest(group_id="g", member_id=None), version, ignore=TEXTS
    )


def test_sessions(shared: Shared) -> None:
    shared.fetch("m", epoch=5, ignore=TEXTS)
    shared.fetch("m", epoch=-1, ignore=TEXTS)
    shared.acknowledge("m", (0, 0, [ACCEPT]), epoch=5)
    shared.acknowledge("m", (0, 0, [ACCEPT]), epoch=0)
    shared.fetch("m", epoch=0, acks=[(0, 0, [ACCEPT])], ignore=TEXTS)
    shared.fetch("m", max_records=1)
    shared.fetch("m", epoch=7, ignore=TEXTS)
    shared.acknowledge("m", (0, 0, [ACCEPT]), epoch=7)
    shared.acknowledge("m", (0, 0, [ACCEPT]))
    shared.fetch("m", max_records=1)
    shared.fetch("m", epoch=0, max_records=1)
    shared.epochs["m"] = 1
    shared.fetch("m", max_wait_ms=0)
    shared.acknowledge("m", (1, 2, [ACCEPT]), epoch=-1)
    shared.acknowledge("m", epoch=-1)


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_acquired_and_acknowledged(shared: Shared, version: int) -> None:
    member = "m"
    shared.fetch(member, version=version, max_records=2)
    shared.acknowledge(member, (0, 0, [ACCEPT]), (1, 2, [RELEASE, REJECT]), version=version)
    shared.fetch(member, version=version)
    shared.fetch(member, version=version, max_wait_ms=100)
    shared.fetch(
        member,
        version=version,
        acks=[(1, 1, [ACCEPT]), (3, 4, [GAP, RELEASE])],
        max_wait_ms=0,
        max_records=0,
    )
    shared.fetch(member, version=version)
    shared.acknowledge(member, (4, 4, [ACCEPT]), version=version, epoch=-1)


def test_acknowledgements_that_make_no_sense(shared: Shared) -> None:
    shared.fetch("m")
    wrongs: list[list[Ack]] = [
        [(1, 0, [ACCEPT])],
        [(2, 3, [ACCEPT]), (0, 1, [ACCEPT])],
        [(0, 1, [])],
        [(0, 1, [ACCEPT] * 3)],
        [(0, 1, [5])],
        [(0, 1, [-1])],
        [(0, 1, [RENEW])],
        [(0, 9, [ACCEPT])],
        [(7, 9, [ACCEPT])],
    ]
    for wrong in wrongs:
        shared.acknowledge("m", *wrong)
        shared.fetch("m", acks=wrong, max_wait_ms=0, max_records=0, ignore=TEXTS)
    shared.acknowledge("m", (0, 0, [ACCEPT]), partition=9)
    shared.acknowledge("m", (0, 0, [ACCEPT]), unknown=True)
    shared.acknowledge("m", empty=True)
    shared.fetch("other", max_wait_ms=0)
    shared.acknowledge("other", (0, 0, [ACCEPT]))
    shared.acknowledge("m", (0, 0, [ACCEPT]), (0, 1, [ACCEPT]))
    shared.acknowledge("m", (0, 4, [ACCEPT]))
    shared.acknowledge("m", (0, 4, [ACCEPT]))


def test_partitions_that_are_not_there(shared: Shared) -> None:
    shared.fetch("m", partitions=[0, 9], ignore=TEXTS, max_records=1)
    shared.fetch("m", ignore=TEXTS, max_records=1)
    shared.fetch("m", ignore=TEXTS, max_wait_ms=0)


def test_a_group_whose_state_was_never_begun(shared: Shared) -> None:
    """Nobody has read or written anything for that group."""
    shared.group_id = "nobody"
    shared.fetch("m", ignore=TEXTS, max_wait_ms=500)
    shared.fetch("m", ignore=TEXTS, max_wait_ms=500)


def test_renewals(shared: Shared) -> None:
    shared.fetch("m")
    shared.fetch("m", is_renew_ack=True, epoch=1, acks=[(0, 1, [RENEW])], ignore=TEXTS)
    for field in ("max_wait_ms", "min_bytes", "max_bytes", "max_records"):
        nothing: dict[str, Any] = {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 0,
            "max_records": 0,
        }
        shared.fetch(
            "m",
            is_renew_ack=True,
            epoch=1,
            acks=[(0, 1, [RENEW])],
            ignore=TEXTS,
            **{**nothing, field: 1},
        )
    shared.fetch("m", is_renew_ack=True, acks=[(0, 1, [RENEW, ACCEPT])], **nothing)
    shared.acknowledge("m", (0, 0, [RENEW]), is_renewing=True)
    shared.acknowledge("m", (1, 1, [RENEW]), is_renewing=True)


def test_limits_of_a_fetch(shared: Shared) -> None:
    shared.fetch("m", max_records=0)
    shared.fetch("m", max_bytes=0, max_wait_ms=200)
    shared.fetch("m", max_records=2, share_acquire_mode=1)
    shared.fetch("m", max_records=1)
    shared.fetch("m", batch_size=1)
    shared.acknowledge("m", (0, 4, [RELEASE]))
    shared.fetch("m", batch_size=0)
    shared.fetch("m", max_records=-1, max_wait_ms=0)
    shared.produce(3)
    shared.fetch("m", max_bytes=1)


def test_forgotten_partitions(shared: Shared) -> None:
    shared.fetch("m", max_records=1)

    def forgetting(side: Cluster) -> fetching.ShareFetchRequest:
        request = shared.fetching("m", epoch=1, max_wait_ms=100)(side)
        request.forgotten_topics_data = [
            fetching.ForgottenTopic(topic_id=side.topic_id(shared.name), partitions=[0])
        ]
        return request

    shared.duel.compare(forgetting, 2)
    shared.epochs["m"] = 2
    shared.fetch("m", max_wait_ms=100)
    shared.acknowledge("m", (0, 0, [ACCEPT]))


def test_a_record_that_fails_again_and_again(shared: Shared) -> None:
    """Throttled redelivery, and the end after four deliveries."""
    for _ in range(14):
        response = shared.fetch("m", max_wait_ms=300)
        told = [
            each
            for topic in response.responses
            for partition in topic.partitions
            for each in partition.acquired_records
        ]
        if told:
            shared.acknowledge(
                "m", *[(each.first_offset, each.last_offset, [RELEASE]) for each in told]
            )
