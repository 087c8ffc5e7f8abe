"""Run the metadata log of this node: perform the rules' decisions and hand out committed records.

This file decides when bytes are written and synced, and in which order effects are performed.
``raft.core`` decides who leads and which records are committed. Listeners interpret the records.
Only ``open``, ``run``, ``handle``, ``upgrade``, ``write_snapshot``, ``hand_over`` and ``close``
wait. ``append`` writes to the page cache and returns.

Invariants: One task at a time steps the rules, and performs the effects of one event before the
next event. The election state is durable before any message that follows from it. A batch is handed
to listeners once, in order, and only when it is committed. A disk error is final: ``run`` raises,
and the node cancels every caller that waits for an append. A full disk is not final. It only fails
the append or delays a snapshot. After a restart, uncommitted records may be lost, or another leader
may commit them. Their callers have received no response.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import trio

from log_service.common.env import DirectoryLock, NodeEnv
from log_service.common.errors import ErrorCode, KafkaError, StorageError, first_error
from log_service.common.types import LeaderEpoch, NodeId
from log_service.config.views import MetadataLogConfig, QuorumConfig
from log_service.protocol.stored.metadata_records import MetadataRecord
from log_service.raft.batches import MetadataBatch, encode_records, voter_changes
from log_service.raft.core import RaftCore
from log_service.raft.describe import QuorumDescription, describe
from log_service.raft.errors import not_controller
from log_service.raft.events import (
    AppendControl,
    AppendFetched,
    Effects,
    Event,
    LogChanged,
    RequestArrived,
    ResignAsked,
    ShutdownBegan,
    SnapshotInstalled,
    Started,
    StoreSlice,
    Synced,
    Ticked,
    TruncateTo,
)
from log_service.raft.leader import Leader
from log_service.raft.log_view import SnapshotId
from log_service.raft.messages import (
    NO_EPOCH,
    NO_LEADER,
    Peer,
    Response,
    UpgradeRequest,
    VoterChangeResponse,
    WireMessage,
    sender_of,
)
from log_service.raft.metadata_listeners import MetadataListener, MetadataListeners
from log_service.raft.metadata_log import (
    MetadataLog,
    failing,
    lock_log_directory,
    read_history,
    snapshot_voters,
)
from log_service.raft.peer_requests import PeerRequests, Transport
from log_service.raft.quorum_store import read_quorum_state, write_quorum_state
from log_service.raft.response_bytes import needs_bytes, with_bytes
from log_service.raft.rivals import RivalWatch
from log_service.raft.roles import NOT_VOTED, remembered
from log_service.raft.snapshots import Snapshot
from log_service.raft.voters import NO_DIRECTORY, ReplicaKey, Voter, VoterEndpoint, VoterSet
from log_service.storage.log_directory import is_full_disk
from log_service.storage.meta_properties import read_meta_properties

SnapshotSource = Callable[[], Iterable[MetadataRecord] | None]
"""Returns all metadata up to the high watermark as records.

Returns None during a metadata transaction.
"""

logger = logging.getLogger(__name__)


class _Reply:
    """A request of a peer that waits for its response."""

    def __init__(self) -> None:
        self.response: Response | None = None
        self.arrived = trio.Event()


class RaftDriver:
    """The metadata log of this node.

    ``directory`` is the log directory of ``__cluster_metadata-0``.
    """

    def __init__(
        self,
        env: NodeEnv,
        directory: Path,
        *,
        node_id: NodeId,
        config: MetadataLogConfig | None = None,
        quorum: QuorumConfig | None = None,
        transport: Transport | None = None,
        static_voters: VoterSet | None = None,
        bootstrap_servers: tuple[Peer, ...] = (),
        endpoints: tuple[VoterEndpoint, ...] = (),
    ) -> None:
        """Create the driver. Without a ``transport``, this node must be the only voter.

        ``static_voters`` are the voters of the configuration, by default this node alone. They
        apply until the log names others. ``endpoints`` are this node's controller listeners.
        """
        self.epoch = NO_EPOCH
        self.leader_id = NO_LEADER
        self.high_watermark = 0
        self._env = env
        self._directory = directory
        self._node_id = node_id
        self._config = config or MetadataLogConfig()
        self._quorum = quorum or QuorumConfig()
        self._rivals = RivalWatch(node_id, env.clock.monotonic_ms)
        self._requests = PeerRequests(transport, self._quorum, env.clock, self._post)
        self._static_voters = (
            VoterSet((Voter(node_id=node_id),)) if static_voters is None else static_voters
        )
        self._bootstrap_servers = bootstrap_servers
        self._endpoints = endpoints
        self._lock: DirectoryLock | None = None
        self.log = MetadataLog(env.files, env.clock, directory, self._config)
        self._log_changes = trio.Semaphore(1)
        self.core: RaftCore | None = None
        self._cluster_id: str | None = None
        self._listeners = MetadataListeners()
        self._inbox: deque[Event] = deque()
        self._is_draining = False
        self._has_event = trio.Event()
        self._appended = trio.Event()
        self._snapshot_due = trio.Event()
        self._leader_changed = trio.Event()
        self._deadline_ms: int | None = None
        self._nursery: trio.Nursery | None = None
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = 0

    @property
    def deadline_ms(self) -> int | None:
        """The time of the next step if no message arrives before, or None without such a step."""
        return self._deadline_ms

    def __repr__(self) -> str:
        return (
            f"<RaftDriver node={self._node_id} {self.role_name} epoch={self.epoch}"
            f" hw={self.high_watermark} end={self.log_end_offset}>"
        )

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.log.end_offset if self.log.is_open else 0

    @property
    def role_name(self) -> str:
        """The name of this node's role in ``roles``, or ``closed`` while the log is not open."""
        return self.core.role_name if self.core is not None else "closed"

    @property
    def voted_id(self) -> NodeId:
        """The node that this node has voted for in this epoch, or -1.

        A leader has voted for itself.
        """
        if self.is_leader:
            return self._node_id
        return remembered(self.core.role).voted_id if self.core is not None else NOT_VOTED

    @property
    def is_leader(self) -> bool:
        """Whether this node leads the quorum. Only the leader may append."""
        return self.leader_id == self._node_id

    @property
    def listener_name(self) -> str:
        """The name of the listener that controllers use."""
        return self._quorum.listener_name

    @property
    def is_only_voter(self) -> bool:
        """Whether this node is the whole quorum."""
        return self.core is not None and self.core.is_only_voter

    @property
    def is_majority_gone(self) -> bool:
        """Whether no majority of voters is running.

        A voter counts as stopped if it has refused a connection and has sent no request since.
        """
        gone, voters = self._requests.refusing_ids, self.core.voters if self.core else ()
        return bool(gone) and 2 * sum(voter.node_id not in gone for voter in voters) <= len(voters)

    @property
    def leader_endpoint(self) -> VoterEndpoint | None:
        """The leader's controller listener, or None if the leader is unknown or this node leads."""
        if self.core is None or self.leader_id in {NO_LEADER, self._node_id}:
            return None
        return next(
            (
                each
                for each in self.core.leader_endpoints
                if each.name == self._quorum.listener_name
            ),
            None,
        )

    @property
    def voters(self) -> tuple[Voter, ...]:
        """The voters in the log, or an empty tuple if the voters are only configured."""
        latest = self.core.history.latest if self.core else None
        return latest.voters.voters if latest is not None and latest.kraft_version > 0 else ()

    def subscribe(self, listener: MetadataListener) -> None:
        """Pass committed batches to ``listener``.

        Call this before ``open``, so that it gets all batches.
        """
        assert not self.log.is_open, "a listener that comes after open would miss what is committed"
        self._listeners.subscribe(listener)

    # Starting and ending

    async def open(self) -> None:
        """Open the log.

        If this node is the only voter, it leads a new epoch on return, and listeners have all
        committed records. In a larger quorum, listeners have the newest snapshot on return. ``run``
        hands out the rest.

        Raises:
            StorageError: the directory is damaged, its disk failed, or the log has other voters
                and this node no transport.
        """
        with failing(f"the metadata log in {self.log.path} cannot be used"):
            snapshot, effects = await self._env.files.run_in_pool(self._load)
            if snapshot is not None and snapshot.id.end_offset > 0:
                self._listeners.on_snapshot(snapshot)
            await self.perform(effects)
            await self._drain()
            self._appended.set()  # writes of the last process may not be durable yet
            if not self._requests.has_transport or self._opened().is_only_voter:
                await self._lead_alone()

    def _load(self) -> tuple[Snapshot | None, Effects]:
        """Read the directory, start the rules, return the snapshot and first effects. Blocks."""
        files = self._env.files
        if self._config.is_directory_apart:
            self._lock = lock_log_directory(files, self._directory)
        properties = read_meta_properties(files, self._directory)
        self._cluster_id = properties.cluster_id if properties else None
        snapshot = self.log.open()
        batches = self.log.read_batches(
            snapshot.id.end_offset if snapshot else self.log.start_offset
        )
        self._listeners.add(batches)
        self.high_watermark = snapshot.id.end_offset if snapshot else self.log.start_offset
        self._last_snapshot_ms = self._env.clock.monotonic_ms()
        self.core = RaftCore(
            own=ReplicaKey(
                self._node_id, (properties.directory_id if properties else None) or NO_DIRECTORY
            ),
            config=self._quorum,
            log=self.log,
            history=read_history(self._static_voters, snapshot, voter_changes(batches)),
            state=read_quorum_state(files, self.log.path),
            synced_end_offset=min(self.log.log.recovery_point, self.log.end_offset),
            draw=self._env.rng.randrange,
            bootstrap_servers=self._bootstrap_servers,
            endpoints=self._endpoints,
        )
        effects = self.core.step(Started(), self._env.clock.monotonic_ms())
        if effects.persist is not None:
            write_quorum_state(files, self.log.path, effects.persist)
        return snapshot, replace(effects, persist=None)

    async def _lead_alone(self) -> None:
        """Commit the start of the epoch, and with it the whole log."""
        core = self._opened()
        if core.leader_id != self._node_id:
            own, voters = (
                core.own,
                [f"{voter.node_id}:{voter.directory_id}" for voter in core.voters],
            )
            text = (
                f"this node ({own.node_id}:{own.directory_id}) is not the only voter of its"
                f" metadata log, the voters are {voters}"
            )
            raise StorageError(text)
        await self.sync()
        await self._drain()
        await self._env.files.run_in_pool(self.log.note_synced)

    async def hand_over(self, timeout_ms: int) -> None:
        """Resign if this node leads other voters, and wait for another leader.

        From now on, this node begins no election. The wait takes at most ``timeout_ms``, and ends
        if no majority of voters is running. Call this method while ``run`` is running.
        """
        self._post(ShutdownBegan())
        if self.is_leader and not self.is_only_voter:
            with trio.move_on_after(timeout_ms / 1_000):
                while self.leader_id in {NO_LEADER, self._node_id} and not self.is_majority_gone:
                    with trio.move_on_after(0.1):
                        await self._leader_changed.wait()

    def resign(self) -> None:
        """Resign if this node leads, so that another voter can lead."""
        self._post(ResignAsked(epoch=self.epoch))

    async def close(self) -> None:
        """Make the log durable and close its files.

        Raises:
            StorageError: the disk failed.
        """
        self._change_leader(NO_LEADER, self.epoch)
        if not self.log.is_open:
            return
        try:
            with failing(f"the metadata log in {self.log.path} could not be closed in order"):
                await self.log.log.close()
                await self._env.files.run_in_pool(self.log.note_synced)
        finally:
            self.release()

    def release(self) -> None:
        """Close the files and release the lock without writing. A second call has no effect.

        A failed start and a cancelled node end in this way.
        """
        self._change_leader(NO_LEADER, self.epoch)
        self.log.close_files()
        if self._lock is not None:
            self._lock.release()

    # What callers ask

    def append(self, records: Sequence[MetadataRecord]) -> int:
        """Append one decision's records as one batch, and return the offset after them.

        The records are committed when ``high_watermark`` reaches this offset in the same ``epoch``.
        In a later epoch, another leader may have other records there.

        Raises:
            KafkaError: NOT_CONTROLLER, this node does not lead the quorum; RECORD_LIST_TOO_LARGE,
                the records do not fit into one batch; KAFKA_STORAGE_ERROR. Nothing was appended.
        """
        if not self.is_leader:
            raise not_controller()
        log = self.log.log
        base_offset, now_ms = log.log_end_offset, self._env.clock.wall_ms()
        buffer = encode_records(
            records, base_offset=base_offset, epoch=self.epoch, timestamp_ms=now_ms
        )
        if len(buffer) > self._config.max_batch_bytes:
            text = (
                f"{len(records)} metadata records take {len(buffer)} bytes, above"
                f" {self._config.max_batch_bytes}; ask for less at once"
            )
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, text)
        try:
            log.append_as_follower(buffer)  # the batch already has its offsets and its epoch
        except KafkaError:
            if log.home.is_offline:
                self._appended.set()  # ``run`` then finds the directory offline and raises
            raise
        batch = MetadataBatch(
            base_offset=base_offset,
            last_offset=log.log_end_offset - 1,
            epoch=self.epoch,
            timestamp_ms=now_ms,
            size_bytes=len(buffer),
            records=tuple(records),
        )
        self._listeners.add([batch])
        if self._opened().is_fetch_parked:
            self._post(LogChanged())
        self._appended.set()
        return self.log_end_offset

    async def handle(self, message: WireMessage, *, listener_name: str) -> WireMessage:
        """Respond to a peer's message. ``listener_name`` is the listener that it arrived on.

        The message is Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot, or a change of
        voters. A Fetch may wait here up to its own maximum.
        """
        from log_service.raft import (  # noqa: PLC0415 - brings the messages of nine APIs, which a quorum of one does not need
            wire,
        )

        context = wire.Context(self._cluster_id, listener_name)
        try:
            request = wire.read_request(message, context)
        except wire.RefusedError as refused:
            return wire.write_refusal(message, refused)
        sender_id = sender_of(request)
        if sender_id is not None:
            self._requests.note_request(sender_id)
        reply = _Reply()
        self._post(RequestArrived(reply_to=reply, request=request))
        await reply.arrived.wait()
        assert reply.response is not None, "the response arrived"
        response = reply.response
        if needs_bytes(response):
            response = await self._env.files.run_in_pool(lambda: with_bytes(self.log, response))
        return wire.write_response(message, response, context)

    async def upgrade(self, kraft_version: int, *, is_only_checked: bool = False) -> None:
        """Raise kraft.version, and return when the new version is committed.

        With ``is_only_checked``, only check whether the version can be raised.

        Raises:
            KafkaError: INVALID_UPDATE_VERSION, this version is not possible; REQUEST_TIMED_OUT, not
                possible now; NOT_CONTROLLER, this node no longer leads.
        """
        reply = _Reply()
        self._post(
            RequestArrived(
                reply_to=reply,
                request=UpgradeRequest(
                    kraft_version=kraft_version, is_only_checked=is_only_checked
                ),
            )
        )
        await reply.arrived.wait()
        assert isinstance(reply.response, VoterChangeResponse), "the response arrived"
        if reply.response.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise not_controller()
        if reply.response.error is not ErrorCode.NONE:
            raise KafkaError(reply.response.error, reply.response.message)

    def describe(self) -> QuorumDescription | None:
        """Return the state of the quorum, or None if this node does not lead it."""
        role = self.core.role if self.core is not None else None
        if not isinstance(role, Leader) or not self.is_leader:
            return None
        return describe(
            role,
            self.log_end_offset,
            now_ms=self._env.clock.monotonic_ms(),
            wall_ms=self._env.clock.wall_ms(),
        )

    async def write_snapshot(self, records: Iterable[MetadataRecord]) -> SnapshotId:
        """Write all metadata below the high watermark as a snapshot, and return its id.

        Old snapshots are removed, and the records that the oldest kept snapshot covers.

        Raises:
            StorageError: the disk failed.
        """
        end_offset, log = self.high_watermark, self.log
        entry = self._opened().history.at(end_offset)
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = self._env.clock.monotonic_ms()
        run_in_pool = self._env.files.run_in_pool
        with failing(f"the snapshot of offset {end_offset} could not be written to {log.path}"):
            async with self._log_changes:
                snapshot_id = await run_in_pool(
                    lambda: log.write_snapshot(end_offset, records, entry)
                )
                await run_in_pool(log.remove_old_snapshots)
                log.trim(end_offset)
                await run_in_pool(log.note_synced)
        return snapshot_id

    # Running

    async def run(
        self,
        snapshot_source: SnapshotSource | None = None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Take part in the quorum: sync appends in groups, and pass on committed records.

        This method ends only by cancellation or an error. Without a ``snapshot_source``, no
        snapshots are written.

        Raises:
            StorageError: the disk failed, or the quorum has lost committed records. No append may
                be acknowledged any more.
        """
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._run_syncs)
                self._nursery.start_soon(self._run_events)
                if snapshot_source is not None:
                    self._nursery.start_soon(self._run_snapshots, snapshot_source)
                task_status.started()
        except BaseExceptionGroup as group:
            failed, _ = group.split(StorageError)
            if failed is None:
                raise
            first = first_error(failed)
            raise first from first.__cause__  # the cause shows whether the disk is full

    async def _run_events(self) -> None:
        while True:
            with trio.move_on_after(self._seconds_to_deadline()) as waiting:
                await self._has_event.wait()
            self._has_event = trio.Event()
            if waiting.cancelled_caught:
                self._inbox.append(Ticked())
            with failing(f"the metadata log in {self.log.path} failed"):
                await self._drain()

    def _seconds_to_deadline(self) -> float:
        if self._deadline_ms is None:
            return float("inf")
        return max(0, self._deadline_ms - self._env.clock.monotonic_ms()) / 1_000

    async def _run_syncs(self) -> None:
        """Make appends durable. One sync covers all appends that wait for it."""
        log = self.log
        while True:
            await self._appended.wait()
            self._appended = trio.Event()
            if log.log.home.is_offline:
                raise StorageError(
                    f"the metadata log in {log.path} could not be appended to:"
                    f" {log.log.home.refused()}"
                )
            with failing(f"the metadata log in {log.path} could not be made durable"):
                await self.sync()

    async def sync(self) -> None:
        """Sync the log, and report its durable end to the core."""
        try:
            # ``acquire`` would cost each commit a turn of the event loop
            self._log_changes.acquire_nowait()
        except trio.WouldBlock:
            await self._log_changes.acquire()
        try:
            self._inbox.append(Synced(end_offset=await self.log.log.sync()))
        finally:
            self._log_changes.release()
        await self._drain()

    async def _run_snapshots(self, snapshot_source: SnapshotSource) -> None:
        """Write snapshots that are due.

        On a full disk, a snapshot is skipped until the next one is due, because the log still holds
        all records.
        """
        while True:
            await self._snapshot_due.wait()
            self._snapshot_due = trio.Event()
            records = snapshot_source()
            if records is None:
                continue  # the snapshot stays due, and the next commit tries again
            try:
                await self.write_snapshot(records)
            except StorageError as error:
                if not is_full_disk(error):
                    raise
                logger.warning("%s; the next one is tried when it is due", error)

    # Effects

    def _opened(self) -> RaftCore:
        assert self.core is not None, "the log is not open"
        return self.core

    def _post(self, event: Event) -> None:
        """Add an event to the inbox. The rules process it after the events before it."""
        self._inbox.append(event)
        self._has_event.set()

    async def _drain(self) -> None:
        """Step the rules through all waiting events, unless another task is already doing so."""
        if self._is_draining:
            return
        core, self._is_draining = self._opened(), True
        try:
            while self._inbox:
                event = self._inbox.popleft()
                await self.perform(core.step(event, self._env.clock.monotonic_ms()))
        finally:
            self._is_draining = False

    async def perform(self, effects: Effects) -> None:
        """Perform the effects of a step, in the order that ``raft.events`` defines."""
        if effects.failure is not None:
            raise StorageError(effects.failure)
        if effects.rival_epoch is not None:
            self._rivals.note(effects.rival_epoch)
        if effects.twins is not None:
            self._rivals.note_twins(effects.twins)
        if effects.voting_directory is not None:
            self._rivals.warn_of_no_vote(
                effects.voting_directory,
                (self._directory, self._opened().own.directory_id),
                is_auto_join_enabled=self._quorum.is_auto_join_enabled,
            )
        if effects.deadline_ms != self._deadline_ms:
            self._deadline_ms = effects.deadline_ms
            self._has_event.set()
        if effects.leader is not None and effects.leader[0] != self._node_id:
            # The leader changes before the writes below, so that no append comes during them.
            self._change_leader(*effects.leader)
        if effects.persist is not None:
            state = effects.persist
            await self._env.files.run_in_pool(
                lambda: write_quorum_state(self._env.files, self.log.path, state)
            )
        await self._change_log(effects)
        for reply_to, response in effects.replies:
            assert isinstance(reply_to, _Reply)
            reply_to.response = response
            reply_to.arrived.set()
        for send in effects.sends:
            self._requests.start(send, self._cluster_id, self._nursery)
        if effects.high_watermark is not None:
            self.high_watermark = max(self.high_watermark, effects.high_watermark)
            committed_bytes = self._listeners.hand_out(self.high_watermark)
            self._bytes_since_snapshot += committed_bytes
            if committed_bytes and self._is_snapshot_due():
                self._snapshot_due.set()
        if effects.leader is not None and effects.leader[0] == self._node_id:
            self._change_leader(*effects.leader)

    async def _change_log(self, effects: Effects) -> None:
        """Append to, truncate or replace the log.

        The event about the change is the next one to process.
        """
        change = effects.log_change
        match change:
            case AppendControl():
                self._note_appended([self.log.append_control(change, self._opened().own)])
            case AppendFetched():
                self._note_appended(self.log.append_fetched(change))
            case TruncateTo():
                async with self._log_changes:
                    self.log.truncate_to(change.offset)
                self._listeners.truncate_to(change.offset)
                self._inbox.appendleft(LogChanged())
            case StoreSlice():
                await self._store_slice(change)
            case None:
                pass

    def _note_appended(self, batches: list[MetadataBatch]) -> None:
        self._listeners.add(batches)
        self._inbox.appendleft(LogChanged(changes=voter_changes(batches), is_refused=not batches))
        self._has_event.set()
        self._appended.set()

    async def _store_slice(self, change: StoreSlice) -> None:
        async with self._log_changes:
            snapshot = await self._env.files.run_in_pool(lambda: self.log.store_slice(change))
        if snapshot is None:
            self._inbox.appendleft(LogChanged())
            return
        self._listeners.clear()
        self.high_watermark = snapshot.id.end_offset
        self._listeners.on_snapshot(snapshot)
        self._inbox.appendleft(
            SnapshotInstalled(snapshot_id=snapshot.id, change=snapshot_voters(snapshot))
        )

    def _change_leader(self, leader_id: NodeId, epoch: LeaderEpoch) -> None:
        """Store the leader and epoch, and notify the listeners."""
        if (leader_id, epoch) == (self.leader_id, self.epoch):
            return
        self.leader_id, self.epoch = leader_id, epoch
        self._leader_changed.set()
        self._leader_changed = trio.Event()
        if leader_id != NO_LEADER and not self.is_only_voter:
            logger.info(
                "Node %d%s leads the metadata quorum in epoch %d",
                leader_id,
                ", this one," * self.is_leader,
                epoch,
            )
        self._listeners.on_leader_change(leader_id, epoch)

    def _is_snapshot_due(self) -> bool:
        interval_ms = self._config.max_snapshot_interval_ms
        age_ms = self._env.clock.monotonic_ms() - self._last_snapshot_ms
        return (
            self._bytes_since_snapshot >= self._config.max_record_bytes_between_snapshots
            or 0 < interval_ms <= age_ms
        )
