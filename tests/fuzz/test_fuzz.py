"""Every run of the tests feeds hostile bytes.

There is a fixed seed for each engine, every old finding, and proof that the engines find. ``make
fuzz MINUTES=10`` goes on from here with other seeds.
"""

import struct
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest

from log_service.broker.authorization.access import Access
from log_service.broker.registry import REGISTRY
from log_service.common.errors import KafkaError, ProtocolError
from log_service.coordinator.group.classic.joining import GroupDecision
from log_service.coordinator.group.group_coordinator import GroupCoordinatorShard
from log_service.coordinator.group.streams.requests import validate_streams_heartbeat
from log_service.coordinator.request_context import RequestContext
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.codec import decode, encode
from log_service.protocol.messages.fetch_snapshot import (
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    ResponsePartitionSnapshot,
    ResponseTopicSnapshot,
)
from log_service.protocol.messages.heartbeat import HeartbeatRequest
from log_service.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from log_service.records import compression
from tests.fuzz import decoders, hostile_broker, process_node, quorum_node, virtual_node
from tests.fuzz.__main__ import play_again, told
from tests.fuzz.cases import Case, Finding, read, write
from tests.fuzz.guarded import USER
from tests.fuzz.logins import (
    draw_challenge,
    draw_login,
    joined,
    read_challenge,
    read_login,
    whole_login,
)
from tests.fuzz.shapes import Vocabulary
from tests.fuzz.shrink import shrink
from tests.fuzz.streams import draw_heartbeat

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))
SEED = 1


def listed(findings: list[Finding]) -> str:
    return "\n".join(
        f"{finding}\n  again with: python -m tests.fuzz --replay {write(finding)}"
        for finding in findings
    )


def test_whatever_parses_bytes_reads_or_refuses_them() -> None:
    figures, findings = decoders.fuzz(SEED, rounds=25)
    assert not findings, listed(findings)
    for spec in (api.spec for api in REGISTRY.values()):
        for kind in ("request", "response"):
            outcomes = figures.outcomes[f"{spec.name} {kind}"]
            assert outcomes["read"] > 0, "the bytes that are drawn never get anywhere"
            assert outcomes["refused"] > 0 or spec.key == ApiKey.LIST_GROUPS


def test_heartbeats_of_streams_groups_get_behind_the_first_checks() -> None:
    rng, outcomes = Random(SEED), Counter[str]()
    for _ in range(300):
        try:
            validate_streams_heartbeat(draw_heartbeat(rng, Vocabulary()))
            outcomes["taken"] += 1
        except KafkaError as error:
            outcomes[error.code.name] += 1
    assert outcomes["taken"] > 100
    assert outcomes["STREAMS_INVALID_TOPOLOGY"] > 10


def test_logins_that_are_drawn_succeed_and_are_refused() -> None:
    rng, outcomes = Random(SEED), Counter[str]()
    for _ in range(300):
        try:
            outcomes[
                "login open" if read_login(draw_login(rng)).login is None else "login complete"
            ] += 1
        except ProtocolError:
            outcomes["login refused"] += 1
        try:
            read_challenge(draw_challenge(rng))
            outcomes["challenge complete"] += 1
        except ProtocolError:
            outcomes["challenge refused"] += 1
    assert all(
        outcomes[what] > 30
        for what in ("login complete", "login refused", "challenge complete", "challenge refused")
    ), outcomes


@pytest.mark.parametrize("version", [0, 1])
def test_no_byte_of_a_login_can_be_changed_into_another_user(version: int) -> None:
    frames = whole_login(version)
    for number, frame in enumerate(frames):
        for place in range(len(frame)):
            for bit in range(8):
                damaged = frame[:place] + bytes([frame[place] ^ 1 << bit]) + frame[place + 1 :]
                with suppress(ProtocolError):
                    read_login(joined([*frames[:number], damaged, *frames[number + 1 :]]))
    assert read_login(joined(frames)).login is not None


def test_a_node_in_virtual_time_survives_every_session() -> None:
    figures, findings = virtual_node.fuzz(SEED, rounds=25)
    assert not findings, listed(findings)
    drawn = {what for what in figures.tried if " v" in what}
    assert drawn == {
        f"{spec.name} v{version}"
        for spec in (api.spec for api in REGISTRY.values())
        for version in range(spec.min_version, spec.max_version + 1)
    }


def test_a_node_with_an_authorizer_survives_sessions_behind_a_login() -> None:
    figures, findings = virtual_node.fuzz(SEED, rounds=4, is_guarded=True)
    assert not findings, listed(findings)
    for what in ("Metadata", "OffsetCommit", "CreateTopics"):
        assert sum(figures.outcomes[f"{what} answered"].values()) > 0, (
            "the sessions do not get behind the login"
        )


def test_a_planted_bug_in_what_asks_for_rights_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = Access.allowed

    def confused(self: Access, operation: Any, resource: Any, names: Any) -> Any:
        asked = list(names)
        if "compact" in asked and self.principal.name == USER:
            raise LookupError("no such right")
        return allowed(self, operation, resource, asked)

    monkeypatch.setattr(Access, "allowed", confused)
    _, findings = virtual_node.fuzz(SEED, rounds=3, tries=12, is_guarded=True)
    assert findings
    assert "no such right" in findings[0].text
    assert virtual_node.replay(findings[0].case)


def test_the_client_survives_a_broker_that_lies() -> None:
    figures, findings = hostile_broker.fuzz(SEED, rounds=20)
    assert not findings, listed(findings)
    assert figures.outcomes["answers"]["damaged"] > 100


@pytest.mark.integration
def test_a_broker_process_survives_every_session_within_its_memory() -> None:
    figures, findings = process_node.fuzz(SEED, rounds=25)
    assert not findings, listed(findings)
    assert figures.notes["most memory"].endswith("MiB resident")
    assert "executions" in told("process_node", figures, SEED)


@pytest.mark.integration
def test_a_controller_survives_peers_that_lie() -> None:
    figures, findings = quorum_node.fuzz(SEED, rounds=10)
    assert not findings, listed(findings)
    assert figures.tried["Vote"] > 0
    assert figures.tried["Fetch answered"] > 0, "the bytes that are drawn never get anywhere"


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found_stays_mended(path: Path) -> None:
    assert not play_again(path)


# The engines find what is there to be found


def test_a_planted_bug_in_a_handler_is_found_made_small_and_played_again(tmp_path: Path) -> None:
    handle = GroupCoordinatorShard.handle_heartbeat

    def careless(
        self: GroupCoordinatorShard,
        request: HeartbeatRequest,
        context: RequestContext,
        decision: GroupDecision,
    ) -> None:
        if request.generation_id == -1:
            raise ZeroDivisionError("planted")
        handle(self, request, context, decision)

    with mock.patch.object(GroupCoordinatorShard, "handle_heartbeat", careless):
        _, findings = virtual_node.fuzz(SEED, rounds=12)
        (found,) = [finding for finding in findings if "planted" in finding.text]
        # An empty one is the time in which the coordinator loads.
        spoken = [session for session in found.case.sessions if session]
        assert len(spoken) <= 2, (
            "one that finds the coordinator, and with it makes its topic, and one heartbeat"
        )
        assert sum(map(len, found.case.sessions[0])) < 400
        path = write(found, tmp_path)
        assert "planted" in play_again(path)


def test_a_planted_bug_in_a_decoder_is_found() -> None:
    def careless(compressed: bytes, _max_size_bytes: int) -> bytes:
        if compressed[:1] != b"\x04":
            raise ZeroDivisionError("planted")
        return b""

    with mock.patch.dict(compression._DECOMPRESSORS, {compression.Codec.LZ4: careless}):
        _, findings = decoders.fuzz(SEED, rounds=25)
    assert any("planted" in finding.text for finding in findings)


def test_a_tagged_struct_of_nothing_but_defaults_is_no_finding() -> None:
    """The struct is not written.

    Node 0 as the leader of epoch 0 cannot be told by FetchSnapshot, in Apache Kafka's format.
    """
    partition = ResponsePartitionSnapshot(
        current_leader=LeaderIdAndEpoch(leader_id=0, leader_epoch=7), unaligned_records=b""
    )
    told = encode(
        FetchSnapshotResponse(topics=[ResponseTopicSnapshot(name="t", partitions=[partition])]), 1
    )
    epoch = told.index(struct.pack(">ii", 0, 7)) + 4
    content = told[:epoch] + bytes(4) + told[epoch + 4 :]
    target = next(each for each in decoders.targets() if each.name == "FetchSnapshot response v1")
    target.read(content)
    read_back, _ = decode(FetchSnapshotResponse, 1, content)
    assert read_back.topics[0].partitions[0].current_leader == LeaderIdAndEpoch(
        leader_id=0, leader_epoch=0
    )


def test_an_epoch_below_all_of_an_empty_log_was_a_finding() -> None:
    """The bytes of the file are those of the request that it was found with."""
    partition = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=-2)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic="plain", partitions=[partition])]
    )
    case = next(read(path) for path in FOUND if "epoch-below-all" in path.stem)
    assert virtual_node.play(case.seed, case.sessions)[0] == ""
    assert request.topics[0].topic.encode() in case.sessions[0][0]


def test_shrinking_keeps_what_fails_and_no_more() -> None:
    case = Case(engine="decoders", target="x", sessions=((b"aaa", b"bbXbb"), (b"c",)))

    def fails(tried: Case) -> bool:
        return any(b"X" in piece for session in tried.sessions for piece in session)

    assert shrink(case, fails).sessions == ((b"X",),)


def test_cases_come_back_from_their_files(tmp_path: Path) -> None:
    case = Case(
        engine="process_node",
        target="session",
        seed=3,
        sessions=((b"\0\1", b""), (b"z",)),
        ids=(("plain", "00" * 16),),
    )
    assert read(write(Finding(text="x", case=case), tmp_path)) == case
