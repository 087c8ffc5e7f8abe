"""``tidelog cluster`` and related commands print and refuse things for a made-up cluster."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, cast
from uuid import UUID

import pytest
import trio
from click.testing import CliRunner, Result

from log_service.cli import cluster, cluster_status, cluster_voters, topics
from log_service.cli.main import tidelog
from log_service.client.admin.values import (
    BrokerDescription,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    FeatureDescription,
    LogDirDescription,
    QuorumDescription,
    QuorumReplica,
    TopicDescription,
    TopicListing,
)
from log_service.client.connections.cluster_view import Node, PartitionView
from log_service.cluster_operations.reading import ClusterState, read_quorum
from log_service.cluster_plans.execution import LEADER_RATE, LEADER_REPLICAS
from log_service.cluster_plans.health import QuorumMember, QuorumState
from log_service.cluster_plans.layout import BrokerLayout, PartitionLayout
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import KRAFT_VERSION
from log_service.common.types import NO_TOPIC_ID, TopicPartition
from tests.helpers.stand_ins import opening, returning
from tests.unit.cluster_plans.layouts import broker, layout, partition

QUORUM = QuorumState(
    leader_id=1,
    leader_epoch=4,
    members=tuple(QuorumMember(node_id=n, is_voter=True, lag=0) for n in (1, 2, 3)),
)
BROKERS = (broker(1), broker(2), broker(3))
PARTITIONS = (partition("t", 0, [1, 2, 3]), partition("solo", 2, [2]))


@dataclass
class Admin:
    """An admin that notes which brokers it was to unregister, and knows the configs that are given."""

    forgotten: list[int] = field(default_factory=list)
    configs: dict[ConfigResource, dict[str, ConfigEntry]] = field(default_factory=dict)

    async def unregister_broker(self, node_id: int) -> None:
        self.forgotten.append(node_id)

    async def describe_configs(
        self, resources: Sequence[ConfigResource]
    ) -> Mapping[ConfigResource, Mapping[str, ConfigEntry]]:
        return {resource: self.configs.get(resource, {}) for resource in resources}

    async def list_topics(self, *, is_internal_included: bool = False) -> list[TopicListing]:
        assert is_internal_included
        return [TopicListing(name="t", topic_id=NO_TOPIC_ID, partition_count=1, is_internal=False)]


def state(
    brokers: Sequence[BrokerLayout] = BROKERS, partitions: Sequence[PartitionLayout] = PARTITIONS
) -> ClusterState:
    return ClusterState(
        cluster_id="c",
        layout=layout(brokers, partitions),
        quorum=QUORUM,
        silent=MappingProxyType({}),
    )


def invoke(*arguments: str, given: str = "") -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(tidelog, ["cluster", *arguments], input=given)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    made = Admin()

    for module in (cluster, cluster_status, topics):
        monkeypatch.setattr(module, "open_admin", opening(made))
    return made


# Forgetting


def test_a_broker_that_serves_is_not_forgotten(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "read_state", returning(state()))
    result = invoke("unregister", "2", "-y")
    assert (result.exit_code, admin.forgotten) == (1, [])
    assert "broker 2 serves, with 2 replicas, the leaders of 1 partition" in result.output
    assert "tidelog cluster remove 2 --execute" in result.output


def test_the_question_tells_what_is_on_the_broker(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        cluster, "read_state", returning(state((broker(1), broker(2, is_fenced=True))))
    )
    result = invoke("unregister", "2", given="n\n")
    assert (result.exit_code, admin.forgotten) == (1, [])
    assert "1 partition without another replica in sync (solo-2). Forget it?" in result.output
    assert invoke("unregister", "2", given="y\n").output.endswith("broker 2 is forgotten\n")
    assert admin.forgotten == [2]


# Throttles


def set_config(admin: Admin, resource: ConfigResource, name: str, source: str) -> None:
    admin.configs.setdefault(resource, {})[name] = ConfigEntry(
        name=name,
        value="1",
        source=source,
        is_read_only=False,
        is_sensitive=False,
        documentation=None,
        synonyms=(),
    )


def test_a_throttle_that_was_left_behind_is_told(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_status, "read_state", returning(state()))
    set_config(admin, ConfigResource.broker(2), LEADER_RATE, "DYNAMIC_BROKER_CONFIG")
    assert invoke("status").output.startswith("all is well"), (
        "a rate that is for no replica throttles nothing"
    )
    set_config(admin, ConfigResource.topic("t"), LEADER_REPLICAS, "DYNAMIC_TOPIC_CONFIG")
    result = invoke("status")
    assert result.exit_code == 0
    assert result.output.startswith(
        "note      replication is throttled on broker 2 and nothing moves: tidelog cluster watch"
    )


def test_a_cordoned_broker_is_told(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """New topics and plans passed it over, and nothing said why."""
    monkeypatch.setattr(
        cluster_status,
        "read_state",
        returning(state((broker(1), broker(2, is_cordoned=True), broker(3)))),
    )
    assert admin.configs == {}
    result = invoke("status")
    assert result.exit_code == 0
    assert result.output.startswith(
        "note      broker 2 takes no new partitions: it is cordoned (cordoned.log.dirs), until: tidelog configs"
    )
    told = json.loads(invoke("status", "--json").output)
    assert [each["cordoned_log_dirs"] for each in told["brokers"]] == [[], ["/data"], []]


def test_rows_and_findings_are_of_one_reading(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that goes while throttles are asked for is listed as it was.

    The rest of the status is printed all the same.
    """
    read: list[ClusterState] = [state((broker(1), broker(2), broker(3), broker(4, is_fenced=True)))]

    async def read_once(_admin: object) -> ClusterState:
        return read.pop()

    async def gone(_resources: object) -> Mapping[ConfigResource, Mapping[str, ConfigEntry]]:
        raise KafkaError(
            ErrorCode.BROKER_NOT_AVAILABLE, "broker 3 is not in the cluster's metadata"
        )

    monkeypatch.setattr(cluster_status, "read_state", read_once)
    monkeypatch.setattr(admin, "describe_configs", gone)
    result = invoke("status", "--json")
    told = json.loads(result.output)
    assert [(each["broker"], each["state"]) for each in told["brokers"]] == [
        (1, "serves"),
        (2, "serves"),
        (3, "serves"),
        (4, "fenced"),
    ]
    assert [(each["severity"], each["items"]) for each in told["findings"]] == [("degraded", ["4"])]
    assert (told["health"], result.exit_code) == ("degraded", 3), (
        "a broker that is down is not all well, without replicas too"
    )


# A quorum without a leader


class LeaderlessAdmin:
    """The admin of a cluster without a controller.

    A request that only a controller answers gets no response, and neither do later ones.
    """

    def __init__(self) -> None:
        self.is_stuck = False

    async def describe_cluster(self) -> ClusterDescription:
        assert not self.is_stuck
        return ClusterDescription(cluster_id="c", controller_id=-1, nodes=(), is_tidelog=True)

    async def describe_brokers(self) -> tuple[BrokerDescription, ...]:
        assert not self.is_stuck
        return (BrokerDescription(node_id=1, host="h", port=1, rack=None, is_fenced=False),)

    async def describe_log_dirs(
        self, node_ids: Sequence[int], *, timeout_ms: int
    ) -> dict[int, dict[str, LogDirDescription]]:
        assert timeout_ms > 0
        assert not self.is_stuck
        return {node_id: {} for node_id in node_ids}

    async def list_topics(self, *, is_internal_included: bool = False) -> list[TopicListing]:
        assert is_internal_included
        assert not self.is_stuck
        return []

    async def describe_features(self) -> FeatureDescription:
        assert not self.is_stuck
        return FeatureDescription(finalized={}, supported={}, finalized_epoch=0)

    async def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        assert timeout_ms is not None, (
            "a person does not wait for as long as brokers look for a leader"
        )
        self.is_stuck = True
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no response")


def test_a_quorum_without_a_leader_is_told_with_the_brokers_that_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_status, "open_admin", opening(LeaderlessAdmin()))
    result = invoke("status")
    assert result.exit_code == 4, result.output
    assert result.output.startswith(
        "FAILED    the metadata quorum has no leader: nothing can be changed"
    )
    assert "no active controller" in result.output
    assert result.output.splitlines()[-1].split()[:2] == ["1", "serves"]


# Controllers


class QuorumAdmin:
    """The admin of brokers 1 and 2 and of controllers 2, 3001 and 3002.

    Controller 3001 leads, and 3002 has stopped. Observer 1 is ahead.
    """

    def __init__(self) -> None:
        self.error: KafkaError | None = None

    async def describe_cluster(self) -> ClusterDescription:
        nodes = tuple(Node(node_id=number, host="h", port=number, rack=None) for number in (1, 2))
        return ClusterDescription(cluster_id="c", controller_id=1, nodes=nodes, is_tidelog=True)

    async def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        assert timeout_ms is None or timeout_ms <= 5_000
        if self.error is not None:
            raise self.error
        leader, follower, stopped, observer = (
            QuorumReplica(
                node_id=node_id,
                directory_id=UUID(int=node_id),
                log_end_offset=end,
                last_fetch_ms=1,
                last_caught_up_ms=at,
            )
            for node_id, end, at in (
                (3001, 100, 90_000),
                (2, 97, 90_000),
                (3002, 40, 5_000),
                (1, 101, 90_000),
            )
        )
        return QuorumDescription(
            leader_id=3001,
            leader_epoch=4,
            high_watermark=97,
            voters=(leader, follower, stopped),
            observers=(observer,),
            endpoints={3001: {"CONTROLLER": "h:9093"}},
        )


@pytest.fixture
def quorum_admin(monkeypatch: pytest.MonkeyPatch) -> QuorumAdmin:
    made = QuorumAdmin()

    for module in (cluster, cluster_status):
        monkeypatch.setattr(module, "open_admin", opening(made))
    read = ClusterState(
        cluster_id="c",
        layout=layout((broker(1), broker(2)), ()),
        quorum=trio.run(read_quorum, cast("Any", made)),
        silent=MappingProxyType({}),
    )
    monkeypatch.setattr(cluster_status, "read_state", returning(read))
    monkeypatch.setattr(cluster_status, "brokers_left_throttled", returning([]))
    return made


def test_the_controller_is_the_one_that_leads_the_quorum_and_no_broker_that_is_named_in_its_place(
    quorum_admin: QuorumAdmin,
) -> None:
    """A broker names any serving broker as the controller (KIP-500).

    Its clients send requests for the controller there.
    """
    lines = invoke("describe").output.splitlines()
    assert lines[0] == "cluster c  2 brokers  tidelog  active controller 3001"
    assert [line.split()[-1] for line in lines[1:]] == ["CONTROLLER", "no", "no"]
    assert json.loads(invoke("describe", "--json").output)["controller_id"] == 3001
    quorum_admin.error = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "no leader")
    assert (
        invoke("describe").output.splitlines()[0]
        == "cluster c  2 brokers  tidelog  no active controller"
    )
    quorum_admin.error = KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    assert invoke("describe").output.splitlines()[0].endswith("active controller 1"), (
        "of a cluster without such a quorum"
    )


def test_status_and_quorum_tell_the_same_of_voters_and_lag(quorum_admin: QuorumAdmin) -> None:
    assert quorum_admin.error is None
    told = [line.split() for line in invoke("quorum").output.splitlines()[2:]]
    assert [(line[0], line[1], line[3]) for line in told] == [
        ("3001", "leader", "0"),
        ("2", "voter", "3"),
        ("3002", "voter", "60"),
        ("1", "observer", "0"),
    ]
    rows = {
        line.split()[0]: line
        for line in invoke("status").output.splitlines()
        if line.split()[:1] and line.split()[0].isdecimal()
    }
    assert list(rows) == ["1", "2", "3001", "3002"]
    assert rows["3001"].split() == ["3001", "controls", *["-"] * 5, "leader", "-", "-"]
    assert rows["3002"].split() == ["3002", "behind", *["-"] * 5, "voter", "-60", "-", "-"]
    assert "voter -3" in rows["2"]
    assert "observer" in rows["1"]
    assert json.loads(invoke("status", "--json").output)["controllers"] == [
        {"node_id": 3001, "state": "controls"},
        {"node_id": 3002, "state": "behind"},
    ]


class FourVoters(QuorumAdmin):
    """As before, with broker 1 as the fourth voter."""

    async def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        found = await super().describe_metadata_quorum(timeout_ms=timeout_ms)
        return replace(found, voters=(*found.voters, *found.observers), observers=())

    async def describe_brokers(self) -> list[BrokerDescription]:
        return [
            BrokerDescription(node_id=each, host="h", port=each, rack=None, is_fenced=False)
            for each in (1, 2)
        ]

    async def describe_configs(
        self, resources: list[ConfigResource]
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        return {each: {} for each in resources}

    async def describe_features(self) -> FeatureDescription:
        return FeatureDescription(supported={}, finalized={KRAFT_VERSION: 1}, finalized_epoch=1)


def test_a_voter_that_is_down_counts_among_those_that_may_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_voters, "open_admin", opening(FourVoters()))
    assert invoke("voters", "remove", "2").output.splitlines()[0] == (
        "voters 1, 2, 3001, 3002 -> 1, 3001, 3002: 0 of 3 may fail beside 3002, which is down or behind"
    )
    assert json.loads(invoke("voters", "remove", "2", "--json").output)["may_fail"] == 0
    assert (
        invoke("voters", "remove", "3002").output.splitlines()[0]
        == "voters 1, 2, 3001, 3002 -> 1, 2, 3001: 1 of 3 may fail"
    )


# Topics


def test_replicas_stand_beside_those_in_sync(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {
        "topic": "t",
        "partition": 0,
        "leader": 3,
        "replicas": [1, 2, 3],
        "isr": [3],
        "start": 0,
        "end": 7,
        "epoch": 4,
    }
    monkeypatch.setattr(topics, "partition_rows", returning([row]))
    result = CliRunner(env={"COLUMNS": "80"}).invoke(tidelog, ["topics", "describe", "t"])
    assert [line.split() for line in result.output.splitlines()] == [
        ["TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "START", "END", "EPOCH"],
        ["t", "0", "3", "1,2,3", "3", "0", "7", "4"],
    ]


# Moves


class MovingAdmin(Admin):
    """An admin of four brokers, of which 3 and 4 are fenced; notes the moves that it was to begin."""

    moved: list[object]

    async def describe_brokers(self) -> list[BrokerDescription]:
        return [
            BrokerDescription(node_id=each, host="h", port=1, rack=None, is_fenced=each > 2)
            for each in (1, 2, 3, 4)
        ]

    async def describe_topics(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        partition = PartitionView(
            partition=0, leader=2, leader_epoch=0, replicas=(2, 3), isr=(2,), offline_replicas=(3,)
        )

        return {
            name: TopicDescription(
                name=name, topic_id=NO_TOPIC_ID, is_internal=False, partitions=(partition,)
            )
            for name in names
        }

    async def alter_partition_reassignments(
        self, moves: Mapping[TopicPartition, Sequence[int] | None]
    ) -> None:
        self.moved.append(dict(moves))

    async def list_partition_reassignments(
        self, _wanted: object
    ) -> Mapping[TopicPartition, object]:
        return {}


def test_replicas_are_not_moved_to_a_broker_that_is_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MovingAdmin()
    made.moved = []

    monkeypatch.setattr(cluster, "open_admin", opening(made))
    monkeypatch.setattr(cluster, "partitions_named", returning([TopicPartition("t", 0)]))
    refused = invoke("reassign", "t:0", "--to", "1,4")
    assert refused.exit_code == 1
    said = "broker 4 is fenced: down or not ready, and a move there would not end. Start it first, or name others with --to"
    assert said in refused.output
    assert "broker 3 is fenced" in invoke("reassign", "t:0", "--to", "3").output, (
        "where replicas become fewer all that stay are waited for"
    )
    assert made.moved == []
    assert invoke("reassign", "t:0", "--to", "1,2").output == "done: nothing had to be copied\n"
    assert invoke("reassign", "t:0", "--cancel").output == "taken back: nothing moves\n"
    assert invoke("reassign", "t:0").output == "nothing moves\n"
    assert invoke("reassign", "t:0", "--to", "1,3").exit_code == 0, (
        "what has a replica already is not waited for"
    )
    assert made.moved == [{TopicPartition("t", 0): each} for each in ([1, 2], None, [1, 3])]
