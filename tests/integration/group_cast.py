"""Members of classic groups act without a client library.

Their story runs on tidelog and on Apache Kafka alike.

    def rebalance(cast: Cast) -> None:
        a, b = cast.member(), cast.member()
        a.join()            # asks for a member id, and joins with it
        b.join()
        ...

    def test_it(duel: Duel) -> None:
        duel.compare_told(told(rebalance))

Every response goes into the story's transcript; ids that the coordinator made up are numbered in
the order in which they appear. A request whose response comes later is ``send``-ed now and heard
with ``hear``.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from log_service.client.group_protocol import Subscription, encode_subscription
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.delete_groups import DeleteGroupsRequest
from log_service.protocol.messages.describe_groups import DescribeGroupsRequest
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.heartbeat import HeartbeatRequest
from log_service.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from log_service.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from log_service.protocol.messages.list_groups import ListGroupsRequest
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from log_service.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.integration.differential import Cluster, Duel, normalise
from tests.integration.wire import Wire

MADE_UP = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
UNKNOWN_ID = "wire-00000000-0000-4000-8000-000000000000"
SESSION_MS = 10_000
REBALANCE_MS = 10_000
ARRIVAL_SECONDS = 0.05
"""What is sent has arrived before somebody else, on another connection, says the next thing."""

Protocols = Sequence[tuple[str, bytes]]


def coordinators_are_there(duel: Duel) -> None:
    """Wait until both sides serve every group.

    The internal topic is made at the first request, and loaded.
    """
    duel.until(
        FindCoordinatorRequest(coordinator_keys=["any"]),
        4,
        lambda response: response.coordinators[0].error_code == 0,
    )
    groups = [f"probe-{number}" for number in range(16)]
    duel.until(
        DescribeGroupsRequest(groups=groups),
        5,
        lambda response: not any(group.error_code for group in response.groups),
    )


def told(story: Callable[["Cast"], None]) -> Callable[[Cluster], Any]:
    """Return the story for ``Duel.compare_told``: its transcript on one side. Its group has the
    story's name.
    """

    def tell(cluster: Cluster) -> Any:
        with ExitStack() as stack:
            cast = Cast(cluster, stack, story.__name__.replace("_", "-").strip("-"))
            story(cast)
            return cast.transcript

    return tell


def subscription(*topics: str, user_data: bytes | None = None) -> bytes:
    """Return a consumer's metadata.

    Kafka fails over metadata of consumers that it cannot read.
    """
    return encode_subscription(Subscription(topics=topics, user_data=user_data))


class Cast:
    """Everybody who takes part in one story on one side."""

    def __init__(self, cluster: Cluster, stack: ExitStack, group: str) -> None:
        self.cluster = cluster
        self.group = group
        self.transcript: list[Any] = []
        self._stack = stack
        self._numbers: dict[str, int] = {}
        self._made_up: set[str] = set()

    def member(self, **habits: Any) -> "Player":
        """Return a new member on a connection of its own.

        ``habits`` are the fields of its joins unless a join says otherwise.
        """
        return Player(self, self._stack.enter_context(Wire(self.cluster.bootstrap)), habits)

    def note(self, response: Any) -> Any:
        """Write a response down."""
        self.transcript.append(in_order(self._numbered(normalise(response, ordered=True))))
        return response

    def note_made_up(self, member_id: str) -> None:
        """Number an id that the coordinator made up, whatever it looks like."""
        if member_id and not MADE_UP.search(member_id):
            self._made_up.add(member_id)

    def settle(self) -> None:
        """Let what Kafka told be stored: it tells an id before it stores the group."""
        time.sleep(5 * ARRIVAL_SECONDS)

    def ask(self, request: Any, version: int) -> Any:
        """Ask as nobody in particular."""
        return self.note(self.cluster.wire.ask(request, version))

    def describe(self, version: int = 5) -> Any:
        """Note what the group looks like."""
        return self.ask(DescribeGroupsRequest(groups=[self.group]), version)

    def is_listed(self, **filters: list[str]) -> bool:
        """Note how the group is listed, or that it is not."""
        listed = self.cluster.wire.ask(ListGroupsRequest(**filters), 5).groups
        mine = [group for group in listed if group.group_id == self.group]
        self.note(mine)
        return bool(mine)

    def fetch(self, topics: dict[str, list[int]] | None = None, version: int = 8) -> Any:
        """Note committed positions."""
        wanted = (
            None
            if topics is None
            else [
                OffsetFetchRequestTopics(name=name, partition_indexes=of)
                for name, of in topics.items()
            ]
        )
        return self.ask(
            OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=self.group, topics=wanted)]
            ),
            version,
        )

    def delete(self, version: int = 2) -> Any:
        """Delete the group and note the response."""
        return self.ask(DeleteGroupsRequest(groups_names=[self.group]), version)

    def _numbered(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._numbered(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._numbered(each) for each in value]
        if isinstance(value, str) and value in self._made_up:
            return f"#{self._numbers.setdefault(value, len(self._numbers) + 1)}"
        if isinstance(value, str):
            return MADE_UP.sub(
                lambda found: (
                    f"-#{self._numbers.setdefault(found.group(), len(self._numbers) + 1)}"
                ),
                value,
            )
        return value


def in_order(value: Any) -> Any:
    """Sort lists of structs: their order is that of Kafka's hash maps."""
    if isinstance(value, dict):
        return {key: in_order(each) for key, each in value.items()}
    if isinstance(value, list):
        items = [in_order(each) for each in value]
        return (
            sorted(items, key=lambda each: json.dumps(each, sort_keys=True))
            if any(isinstance(each, dict) for each in items)
            else items
        )
    return value


class Player:
    """One member: what it knows of itself, and what it says."""

    def __init__(self, cast: Cast, wire: Wire, habits: dict[str, Any]) -> None:
        self.cast = cast
        self.wire = wire
        self.habits = habits
        self.member_id = ""
        self.generation_id = -1
        self.instance_id: str | None = habits.pop("instance", None)

    # Joining

    def send_join(self, version: int = 9, *, member_id: str | None = None, **said: Any) -> None:
        """Ask to join."""
        chosen = {**self.habits, **said}
        protocols: Protocols = chosen.get("protocols", [("range", b"")])
        request = JoinGroupRequest(
            group_id=chosen.get("group", self.cast.group),
            session_timeout_ms=chosen.get("session_ms", SESSION_MS),
            rebalance_timeout_ms=chosen.get("rebalance_ms", REBALANCE_MS if version else -1),
            member_id=self.member_id if member_id is None else member_id,
            group_instance_id=self.instance_id,
            protocol_type=chosen.get("protocol_type", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in protocols
            ],
            reason=chosen.get("reason"),
        )
        self._send(request, version)

    def _send(self, request: Any, version: int) -> None:
        self.wire.send(request, version)
        time.sleep(ARRIVAL_SECONDS)

    def hear_join(self, version: int = 9) -> Any:
        """Note the response to a join, and take id and generation from it."""
        response = self.wire.receive(ApiKey.JOIN_GROUP, version)
        if not self.member_id:
            self.cast.note_made_up(response.member_id)
        self.cast.note(response)
        if response.error_code in (0, 79):
            self.member_id = response.member_id
        if response.error_code == 0:
            self.generation_id = response.generation_id
        return response

    def ask_id(self, version: int = 9, **said: Any) -> None:
        """Join without an id and note the id that is to be used."""
        self.send_join(version, **said)
        self.hear_join(version)

    def join(self, version: int = 9, **said: Any) -> Any:
        """Join, after asking for an id where that is needed, and note the responses."""
        if not self.member_id and version >= 4 and self.instance_id is None:
            self.ask_id(version, **said)
        self.send_join(version, **said)
        return self.hear_join(version)

    # Syncing and staying

    def send_sync(
        self, assignments: dict["Player", bytes] | None = None, version: int = 5, **said: Any
    ) -> None:
        """Ask for an assignment; the leader says who gets what."""
        request = SyncGroupRequest(
            group_id=self.cast.group,
            generation_id=said.get("generation_id", self.generation_id),
            member_id=said.get("member_id", self.member_id),
            group_instance_id=said.get("instance_id", self.instance_id),
            protocol_type=said.get("protocol_type", self.habits.get("protocol_type", "consumer")),
            protocol_name=said.get("protocol_name", "range"),
            assignments=[
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=part)
                for member, part in (assignments or {}).items()
            ],
        )
        self._send(request, version)

    def hear_sync(self, version: int = 5) -> Any:
        """Note the response to a sync."""
        return self.cast.note(self.wire.receive(ApiKey.SYNC_GROUP, version))

    def sync(
        self, assignments: dict["Player", bytes] | None = None, version: int = 5, **said: Any
    ) -> Any:
        """Sync and note the response."""
        self.send_sync(assignments, version, **said)
        return self.hear_sync(version)

    def heartbeat(self, version: int = 4, **said: Any) -> int:
        """Heartbeat and note the response."""
        request = HeartbeatRequest(
            group_id=self.cast.group,
            generation_id=said.get("generation_id", self.generation_id),
            member_id=said.get("member_id", self.member_id),
            group_instance_id=said.get("instance_id", self.instance_id),
        )
        return int(self.cast.note(self.wire.ask(request, version)).error_code)

    def leave(self, version: int = 5, members: list[MemberIdentity] | None = None) -> Any:
        """Leave (or have others leave) and note the response."""
        mine = [
            MemberIdentity(
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                reason="done" if version >= 5 else None,
            )
        ]
        request = LeaveGroupRequest(group_id=self.cast.group)
        if version < 3:
            request.member_id = self.member_id
        else:
            request.members = mine if members is None else members
        return self.cast.note(self.wire.ask(request, version))

    def commit(
        self, offset: int, topic: str = "orders", partition: int = 0, version: int = 9, **said: Any
    ) -> Any:
        """Commit one position and note the response."""
        position = OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=said.get("leader_epoch", -1),
            committed_metadata=said.get("metadata", ""),
        )
        request = OffsetCommitRequest(
            group_id=said.get("group", self.cast.group),
            generation_id_or_member_epoch=said.get("generation_id", self.generation_id),
            member_id=said.get("member_id", self.member_id),
            group_instance_id=said.get("instance_id", self.instance_id),
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[position])],
        )
        return self.cast.note(self.wire.ask(request, version))
