"""A quorum in memory runs the rules of ``raft.core`` over logs of values.

It passes messages between replicas. A ``Disk`` outlives its replica's process and loses what was
not synced; a ``Process`` performs effects as the driver does. When messages arrive, when disks sync
and what breaks is decided by the caller: a script, or a seed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple
from uuid import UUID

from log_service.common.errors import ErrorCode
from log_service.common.types import NodeId
from log_service.config.views import QuorumConfig
from log_service.raft.core import RaftCore
from log_service.raft.events import (
    AppendControl,
    AppendFetched,
    Effects,
    Event,
    LogChanged,
    RequestArrived,
    RequestFailed,
    ResponseArrived,
    SnapshotInstalled,
    Started,
    StoreSlice,
    Synced,
    Ticked,
    TruncateTo,
)
from log_service.raft.leader import Leader
from log_service.raft.log_view import EpochEnd, SnapshotId
from log_service.raft.messages import (
    FetchResponse,
    FetchSnapshotResponse,
    KRaftVersionRequest,
    KRaftVersionResponse,
    Peer,
    Request,
    Response,
)
from log_service.raft.roles import ElectionState
from log_service.raft.voters import (
    ReplicaKey,
    Voter,
    VoterChange,
    VoterEndpoint,
    VoterHistory,
    VoterSet,
)

LISTENER = "CONTROLLER"
CONFIG = QuorumConfig(fetch_max_bytes=4, snapshot_max_bytes=3)
"""Bytes are entries here: a fetch brings four of them, a slice of a snapshot three."""


class Voters(NamedTuple):
    """A control record: the voters, and the kraft.version where it changes."""

    voters: VoterSet
    kraft_version: int | None = None

    def __str__(self) -> str:
        return f"voters{[voter.node_id for voter in self.voters]}"


class Entry(NamedTuple):
    """One record of a log."""

    epoch: int
    value: str | Voters

    def __str__(self) -> str:
        return f"{self.value}@{self.epoch}"


def directory(number: int) -> UUID:
    return UUID(int=1_000 + number)


def endpoint(node_id: int) -> VoterEndpoint:
    return VoterEndpoint(LISTENER, f"node{node_id}", 9093)


def voter(node_id: int, directory_number: int | None = None) -> Voter:
    number = node_id if directory_number is None else directory_number
    return Voter(
        node_id=NodeId(node_id), directory_id=directory(number), endpoints=(endpoint(node_id),)
    )


class MemoryLog:
    """A log of entries, with snapshots, as ``LogView`` shows it."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.entries: list[Entry] = []
        self.snapshots: dict[SnapshotId, tuple[Entry, ...]] = {}
        self.synced_end_offset = 0

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.entries)

    @property
    def last_epoch(self) -> int:
        if self.entries:
            return self.entries[-1].epoch
        return self.latest_snapshot.epoch if self.latest_snapshot else 0

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return min(self.snapshots, default=None)

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return max(self.snapshots, default=None)

    def snapshot_size_bytes(self, snapshot_id: SnapshotId) -> int | None:
        content = self.snapshots.get(snapshot_id)
        return None if content is None else len(content)

    def end_of_epoch(self, epoch: int) -> EpochEnd | None:
        starts = self._epoch_starts()
        if not starts or epoch > starts[-1][0]:
            return None
        if epoch == starts[-1][0]:
            return EpochEnd(epoch, self.end_offset)
        later = next(index for index, (known, _) in enumerate(starts) if known > epoch)
        return EpochEnd(starts[later - 1][0] if later else epoch, starts[later][1])

    def _epoch_starts(self) -> list[tuple[int, int]]:
        starts: list[tuple[int, int]] = []
        for offset, entry in enumerate(self.entries, self.start_offset):
            if not starts or starts[-1][0] != entry.epoch:
                starts.append((entry.epoch, offset))
        return starts

    def entry(self, offset: int) -> Entry | None:
        index = offset - self.start_offset
        return self.entries[index] if 0 <= index < len(self.entries) else None

    def read(self, offset: int, count: int) -> tuple[Entry, ...]:
        index = offset - self.start_offset
        return tuple(self.entries[index : index + max(1, count)])

    def truncate_to(self, offset: int) -> None:
        del self.entries[max(0, offset - self.start_offset) :]
        self.synced_end_offset = min(self.synced_end_offset, self.end_offset)

    def trim_to(self, offset: int) -> None:
        """Let go of what an old enough snapshot covers."""
        del self.entries[: offset - self.start_offset]
        self.start_offset = offset
        self.snapshots = {
            each: content for each, content in self.snapshots.items() if each.end_offset >= offset
        }

    def install(self, snapshot_id: SnapshotId, content: tuple[Entry, ...]) -> None:
        self.entries = []
        self.start_offset = self.synced_end_offset = snapshot_id.end_offset
        self.snapshots = {snapshot_id: content}

    def prefix(self, end_offset: int) -> tuple[Entry, ...]:
        """Return all entries below an offset, those of the oldest snapshot first."""
        known = (
            self.snapshots[self.earliest_snapshot]
            if self.start_offset and self.earliest_snapshot
            else ()
        )
        return (*known, *self.entries[: end_offset - self.start_offset])


@dataclass(slots=True)
class Disk:
    """The state of a node that is on its disk."""

    directory_id: UUID
    log: MemoryLog = field(default_factory=MemoryLog)
    state: ElectionState | None = None

    def crash(self, rng: Random) -> None:
        """Lose some of what was not synced."""
        self.log.truncate_to(rng.randint(self.log.synced_end_offset, self.log.end_offset))


@dataclass(frozen=True, slots=True)
class Message:
    """A request, or the response to one. ``request_id`` is the sender's of the request; a response
    may be None: the request failed.

    ``is_refused`` says that it failed because no process listens where it was sent.
    """

    sender: int
    receiver: int
    request_id: int
    request: Request
    response: Response | None = None
    is_response: bool = False
    error: ErrorCode = ErrorCode.REQUEST_TIMED_OUT
    is_refused: bool = False

    def refusal(self) -> "Message":
        """Return what the sender of this request hears where no process listens."""
        return replace(
            self, sender=self.receiver, receiver=self.sender, is_response=True, is_refused=True
        )


class Process:
    """One process of a replica performs the effects of its rules on its disk.

    It hands messages to ``post``.
    """

    def __init__(
        self,
        node_id: int,
        disk: Disk,
        *,
        static_voters: VoterSet,
        bootstrap_ids: tuple[int, ...],
        draw: Callable[[int], int],
        post: Callable[[Message], None],
        watch: Callable[["Process", Event, Effects], None],
        config: QuorumConfig = CONFIG,
        address: int | None = None,
    ) -> None:
        self.node_id = node_id
        self.address = node_id if address is None else address
        """Where it listens: the number in its host's name, which is the node's id unless two
        processes have one.
        """
        self.disk = disk
        self.is_running = True
        self.is_stalled = False
        """Whether the disk does not sync at the moment."""
        self.deadline_ms: int | None = 0
        self.failure: str | None = None
        self.max_kraft_version = 1
        """What it says of itself; its rules know both."""
        self.outcomes: dict[object, Response] = {}
        """Responses to requests that no replica sent: those of an operator."""
        self._post = post
        self._watch = watch
        self._slices: dict[SnapshotId, tuple[Entry, ...]] = {}
        self._peer_ids: dict[int, NodeId] = {}
        """To whom each request was sent; the id of a server of the configuration is not known
        there, and negative.
        """
        servers = tuple(
            Peer(NodeId(each if static_voters else -2 - each), f"node{each}", 9093)
            for each in bootstrap_ids
            if each != node_id
        )
        self.core = RaftCore(
            own=ReplicaKey(NodeId(node_id), disk.directory_id),
            config=config,
            log=disk.log,
            history=self._read_voters(static_voters),
            state=disk.state,
            synced_end_offset=disk.log.synced_end_offset,
            draw=draw,
            bootstrap_servers=servers,
            endpoints=(endpoint(self.address),),
        )

    def _read_voters(self, static_voters: VoterSet) -> VoterHistory:
        history, log = VoterHistory(static_voters), self.disk.log
        if log.latest_snapshot is not None and (change := self._voters_in(log.latest_snapshot)):
            history.note(change)
        first = log.latest_snapshot.end_offset if log.latest_snapshot else 0
        for offset in range(max(first, log.start_offset), log.end_offset):
            entry = log.entry(offset)
            if entry is not None and isinstance(entry.value, Voters):
                history.note(
                    VoterChange(
                        offset=offset,
                        kraft_version=entry.value.kraft_version,
                        voters=entry.value.voters,
                    )
                )
        return history

    def _voters_in(self, snapshot_id: SnapshotId) -> VoterChange | None:
        named = [
            entry.value
            for entry in self.disk.log.snapshots[snapshot_id]
            if isinstance(entry.value, Voters)
        ]
        if not named:
            return None
        version = max(
            (value.kraft_version for value in named if value.kraft_version is not None), default=1
        )
        return VoterChange(
            offset=snapshot_id.end_offset - 1, kraft_version=version, voters=named[-1].voters
        )

    # Events

    def start(self, now_ms: int) -> None:
        self.step(Started(), now_ms)

    def tick(self, now_ms: int) -> None:
        self.step(Ticked(), now_ms)

    def receive(self, message: Message, now_ms: int) -> None:
        if message.is_response:
            self._receive_response(message, now_ms)
        elif isinstance(message.request, KRaftVersionRequest):
            response = KRaftVersionResponse(
                min_kraft_version=0, max_kraft_version=self.max_kraft_version
            )
            self._post(
                replace(
                    message,
                    sender=self.address,
                    receiver=message.sender,
                    response=response,
                    is_response=True,
                )
            )
        else:
            self.step(RequestArrived(reply_to=message, request=message.request), now_ms)

    def _receive_response(self, message: Message, now_ms: int) -> None:
        peer_id = self._peer_ids.get(message.request_id, NodeId(message.sender))
        if message.response is None:
            failed = RequestFailed(
                peer_id=peer_id,
                request_id=message.request_id,
                request=message.request,
                error=message.error,
                is_refused=message.is_refused,
            )
            self.step(failed, now_ms)
        else:
            self.step(
                ResponseArrived(
                    peer_id=peer_id, request_id=message.request_id, response=message.response
                ),
                now_ms,
            )

    def ask(self, key: object, request: Request, now_ms: int) -> None:
        """Let an operator ask; the response is in ``outcomes`` one day."""
        self.step(RequestArrived(reply_to=("operator", key), request=request), now_ms)

    def append(self, value: str, now_ms: int) -> bool:
        """Append a value if this replica leads and has committed something in its epoch."""
        role = self.core.role
        if not isinstance(role, Leader) or role.high_watermark < 0:
            return False
        self.disk.log.entries.append(Entry(role.epoch, value))
        self.step(LogChanged(), now_ms)
        return True

    def sync(self, now_ms: int) -> bool:
        """Make the log durable; says whether anything was not."""
        log = self.disk.log
        if log.synced_end_offset == log.end_offset:
            return False
        log.synced_end_offset = log.end_offset
        self.step(Synced(end_offset=log.end_offset), now_ms)
        return True

    def snapshot(self, keep: int = 1) -> SnapshotId | None:
        """Take a snapshot of the committed part.

        Delete the log before the oldest of the newest ``keep`` snapshots.
        """
        log, end_offset = self.disk.log, self.core.high_watermark
        last = log.entry(end_offset - 1)
        if last is None or log.synced_end_offset < end_offset:
            return None
        snapshot_id = SnapshotId(end_offset, last.epoch)
        log.snapshots[snapshot_id] = log.prefix(end_offset)
        log.trim_to(sorted(log.snapshots)[-keep:][0].end_offset)
        return snapshot_id

    # Effects

    def step(self, event: Event, now_ms: int) -> None:
        if not self.is_running:
            return
        effects = self.core.step(event, now_ms)
        self.deadline_ms = effects.deadline_ms
        self.failure = self.failure or effects.failure
        if effects.persist is not None:
            self.disk.state = effects.persist
        following = self._change_log(effects)
        for reply_to, response in effects.replies:
            self._reply(reply_to, response)
        for send in effects.sends:
            self._peer_ids[send.request_id] = send.peer.node_id
            receiver = int(send.peer.host.removeprefix("node"))
            self._post(Message(self.address, receiver, send.request_id, send.request))
        self._watch(self, event, effects)
        if self.failure is not None:
            self.is_running = False
        if following is not None:
            self.step(following, now_ms)

    def _reply(self, reply_to: object, response: Response) -> None:
        if isinstance(reply_to, Message):
            filled = self._fill(response)
            self._post(
                replace(
                    reply_to,
                    sender=self.address,
                    receiver=reply_to.sender,
                    response=filled,
                    is_response=True,
                )
            )
        else:
            self.outcomes[reply_to] = response

    def _fill(self, response: Response) -> Response:
        log = self.disk.log
        if isinstance(response, FetchResponse) and response.records_from is not None:
            return replace(response, records=log.read(response.records_from, response.max_bytes))
        if isinstance(response, FetchSnapshotResponse) and response.snapshot_id is not None:
            content = log.snapshots[response.snapshot_id][
                response.position : response.position + response.max_bytes
            ]
            return replace(response, content=content)
        return response

    def _change_log(self, effects: Effects) -> Event | None:
        log, change = self.disk.log, effects.log_change
        match change:
            case TruncateTo():
                log.truncate_to(change.offset)
                return LogChanged()
            case AppendFetched():
                return self._append(
                    [entry for entry in change.records if entry.epoch <= change.max_epoch]  # type: ignore[attr-defined]
                )
            case AppendControl():
                return self._append(self._control_entries(change))
            case StoreSlice():
                return self._store(change)
            case None:
                return None

    def _append(self, entries: list[Entry]) -> LogChanged:
        first = self.disk.log.end_offset
        self.disk.log.entries += entries
        changes = [
            VoterChange(
                offset=first + index,
                kraft_version=entry.value.kraft_version,
                voters=entry.value.voters,
            )
            for index, entry in enumerate(entries)
            if isinstance(entry.value, Voters)
        ]
        return LogChanged(changes=tuple(changes), is_refused=not entries)

    def _control_entries(self, change: AppendControl) -> list[Entry]:
        entries = (
            [Entry(change.epoch, f"leader={self.node_id}")]
            if change.granting_ids is not None
            else []
        )
        if change.voters is not None:
            entries.append(Entry(change.epoch, Voters(change.voters, change.kraft_version)))
        return entries

    def _store(self, change: StoreSlice) -> Event:
        known = self._slices.get(change.snapshot_id, ())[: change.position]
        content = self._slices[change.snapshot_id] = (*known, *change.content)  # type: ignore[misc]
        if not change.is_last:
            return LogChanged()
        self.disk.log.install(change.snapshot_id, content)
        return SnapshotInstalled(
            snapshot_id=change.snapshot_id, change=self._voters_in(change.snapshot_id)
        )


def first_disk(node_id: int, voters: VoterSet | None = None) -> Disk:
    """Return the disk of a formatted node.

    With voters they are records (kraft.version 1), as ``--initial-controllers`` writes them.
    """
    disk = Disk(directory(node_id))
    if voters is not None:
        disk.log.snapshots[SnapshotId(0, 0)] = (Entry(0, Voters(voters, 1)),)
    return disk
