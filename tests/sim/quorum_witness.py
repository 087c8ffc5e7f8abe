"""Watches the metadata quorum of a simulated cluster from outside.

It compares what its nodes believe and have on their disks.

Decides nothing for the nodes: it reads their roles, listens to what each of them hands out as
committed, and parses the durable bytes of their disks. The promises, each checked whenever
something of it has changed:

* an epoch has one leader, which is one process; the epoch and the high watermark of a process never
  go back;
* what is committed at an offset is the same batch on every node, for ever; a majority of the voters
  holds it durably when the first node hands it out; each new leader has it;
* each process hands out all that is committed, from the beginning or a snapshot, in order;
* a leader never loads a snapshot; a replica votes once in an epoch, also over a restart; one that
  hears its leader grants no pre-vote; none votes for a shorter log than its own, up to the voters
  that leave it out.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple
from unittest import mock
from zlib import crc32

from log_service.common.types import LeaderEpoch, NodeId
from log_service.protocol.stored.serde import encode_metadata_record
from log_service.raft.batches import RECORD_VERSIONS, MetadataBatch
from log_service.raft.core import RaftCore
from log_service.raft.driver import RaftDriver
from log_service.raft.events import Effects, Event, RequestArrived
from log_service.raft.leader import Leader
from log_service.raft.messages import VoteRequest, VoteResponse
from log_service.raft.metadata_log import MetadataLog
from log_service.raft.roles import Candidate, Follower, Resigned
from log_service.raft.snapshots import Snapshot
from log_service.raft.voters import ReplicaKey
from tests.sim.durable_log import DurableLog
from tests.sim.node_host import DATA_DIRECTORIES, Incarnation, NodeHost
from tests.sim.pauses import HOST

METADATA = DATA_DIRECTORIES[0] / "__cluster_metadata-0"
RULE = "quorum"
Report = Callable[[str, str], None]
"""Takes the rule that is broken, and what shows it."""


class _Committed(NamedTuple):
    """One committed batch. ``content`` stands for its records."""

    last_offset: int
    epoch: int
    content: int
    kinds: tuple[str, ...]


class _Vote(NamedTuple):
    """A voter votes for a candidate in an epoch."""

    voter: ReplicaKey
    epoch: int
    candidate: ReplicaKey


@dataclass(slots=True)
class _Known:
    """The state of one process when it was last looked at."""

    epoch: int = -1
    high_watermark: int = -1
    is_leader: bool = False


@dataclass(slots=True)
class QuorumWitness:
    """Watches nodes; ``report`` takes what contradicts a promise."""

    report: Report
    leaders: dict[int, tuple[str, int]] = field(default_factory=dict)
    votes: dict[tuple[ReplicaKey, int], ReplicaKey] = field(default_factory=dict)
    _given: dict[int, list[_Vote]] = field(default_factory=dict)
    committed: dict[int, _Committed] = field(default_factory=dict)
    end_offset: int = 0
    logs: dict[str, DurableLog] = field(default_factory=dict)
    hosts_by_id: dict[int, str] = field(default_factory=dict)
    leading: set[tuple[RaftDriver, int]] = field(default_factory=set)
    known: dict[tuple[str, int], _Known] = field(default_factory=dict)

    @contextmanager
    def attached(self, hosts: Sequence[NodeHost]) -> Iterator[None]:
        """Listen to every process of these hosts that begins inside, from before it opens its log."""
        by_name = {host.name: host for host in hosts}
        self.hosts_by_id = {host.node_id: host.name for host in hosts}
        self.logs = {host.name: DurableLog(host.disk, METADATA) for host in hosts}
        open_log = RaftDriver.open

        async def open_and_listen(driver: RaftDriver) -> None:
            host = by_name.get(HOST.get())
            if host is not None:
                reader = _Reader(self, host.name, len(host.incarnations), driver)
                driver.subscribe(reader)
            await open_log(driver)
            if host is not None:
                reader.is_open = True

        def step_and_look(core: RaftCore, event: Event, now_ms: int) -> Effects:
            effects = step(core, event, now_ms)
            if HOST.get() in by_name:
                self._given[id(effects)] = self._votes_in(core, event, effects, now_ms)
            return effects

        async def perform_and_look(driver: RaftDriver, effects: Effects) -> None:
            # A vote counts once it has left the node, which may die before.
            await perform(driver, effects)
            core = driver.core
            if core is not None and isinstance(core.role, Leader):
                # It is written down by now: before that no other node learns of it.
                self.leading.add((driver, core.epoch))
            for voter, epoch, candidate in self._given.pop(id(effects), ()):
                self._note_vote(voter, epoch, candidate)

        step, perform = RaftCore.step, RaftDriver.perform
        with (
            mock.patch.object(RaftDriver, "open", open_and_listen),
            mock.patch.object(RaftCore, "step", step_and_look),
            mock.patch.object(RaftDriver, "perform", perform_and_look),
        ):
            yield

    def look(self, host: NodeHost, incarnation: Incarnation) -> None:
        """Compare what a process believes with what it believed before, and with the others."""
        driver = _driver_of(incarnation)
        core = None if driver is None else driver.core
        if driver is None or core is None:
            return
        who = (host.name, incarnation.number)
        known = self.known.get(who)
        if known is None:
            known = self.known[who] = _Known()
            self.check_vote(who, core)
        epoch, high_watermark = core.epoch, core.high_watermark
        is_leader = isinstance(core.role, Leader) and (driver, epoch) in self.leading
        if isinstance(core.role, Leader):
            self._check_open_changes(who, core)
        if (known.epoch, known.high_watermark, known.is_leader) == (
            epoch,
            high_watermark,
            is_leader,
        ):
            return
        if epoch < known.epoch:
            self.report(RULE, f"{who} went from epoch {known.epoch} back to {epoch}")
        if high_watermark < known.high_watermark:
            self.report(
                RULE,
                f"the high watermark of {who} went back from {known.high_watermark} to {high_watermark}",
            )
        if is_leader and (not known.is_leader or epoch != known.epoch):
            self._check_leader(who, epoch, driver)
        known.epoch, known.high_watermark, known.is_leader = epoch, high_watermark, is_leader

    def _check_open_changes(self, who: tuple[str, int], core: RaftCore) -> None:
        """Voters change one by one: a leader adds no change while another one is not committed."""
        role, history = core.role, core.replica.history
        assert isinstance(role, Leader)
        since = max(core.high_watermark, role.epoch_start_offset)
        if history.latest.offset < since:
            return
        sets = [(entry.offset, {voter.key for voter in entry.voters}) for entry in history.entries]
        changes = [
            offset
            for (_, before), (offset, after) in pairwise(sets)
            if offset >= since and after != before
        ]
        if len(changes) > 1:
            self.report(
                RULE, f"{who} has changes of voters at {changes} that are not committed: {history}"
            )

    def check_vote(self, who: tuple[str, int], core: RaftCore) -> None:
        """A process that begins knows its node's vote in its epoch.

        One that led or stood in that epoch voted for itself.
        """
        voted, role = self.votes.get((core.own, core.epoch)), core.role
        if (
            voted is not None
            and not isinstance(role, Leader | Resigned | Candidate)
            and role.voted != voted
        ):
            self.report(
                RULE,
                f"{who} begins in epoch {core.epoch} with the vote {role.voted}, and its node voted for {voted}",
            )

    def _check_leader(self, who: tuple[str, int], epoch: int, driver: RaftDriver) -> None:
        """A leader has all that was committed in its epoch and before.

        One that comes late, after a vote or a write that took long, need not have what a leader of
        a later epoch has committed meanwhile.
        """
        first = self.leaders.setdefault(epoch, who)
        if first != who:
            self.report(RULE, f"epoch {epoch} is led by {first} and by {who}")
        log = driver.log.log
        offset = max(
            (offset for offset, batch in self.committed.items() if batch.epoch <= epoch),
            default=None,
        )
        if offset is None:
            return
        last = self.committed[offset]
        if log.log_end_offset <= last.last_offset:
            self.report(
                RULE,
                f"{who} leads epoch {epoch} with {log.log_end_offset} records; {last.last_offset + 1} are committed",
            )
        elif log.log_start_offset <= offset:
            found = log.leader_epochs.epoch_of(offset)
            if found != last.epoch:
                self.report(
                    RULE,
                    f"{who} leads epoch {epoch} with epoch {found} at {offset}, where {last} is committed",
                )

    def _votes_in(self, core: RaftCore, event: Event, effects: Effects, now_ms: int) -> list[_Vote]:
        """Return the binding votes that a step gives; a replica that hears its leader grants no
        pre-vote.
        """
        requests = [send.request for send in effects.sends if isinstance(send.request, VoteRequest)]
        votes = [
            _Vote(core.own, request.epoch, core.own)
            for request in requests
            if not request.is_pre_vote
        ]
        for reply_to, response in effects.replies:
            if (
                not isinstance(event, RequestArrived)
                or event.reply_to is not reply_to
                or not isinstance(event.request, VoteRequest)
            ):
                continue
            if not isinstance(response, VoteResponse) or not response.is_granted:
                continue
            role, request = core.role, event.request
            own_end = _end_with_own_vote(core)
            if (request.last_epoch, request.end_offset) < own_end:
                asked = f"{request.candidate}, whose log ends at {request.end_offset} of epoch {request.last_epoch}"
                self.report(
                    RULE,
                    f"{core.own} votes in epoch {request.epoch} for {asked}, and its own is longer: {own_end}",
                )
            if not request.is_pre_vote:
                votes.append(_Vote(core.own, request.epoch, request.candidate))
            elif isinstance(role, Leader) or (
                isinstance(role, Follower) and role.has_fetched and role.fetch_deadline_ms > now_ms
            ):
                self.report(
                    RULE,
                    f"{core.own} hears its leader, and grants {request.candidate} a pre-vote in epoch {request.epoch}",
                )

        return votes

    def _note_vote(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey) -> None:
        first = self.votes.setdefault((voter, epoch), candidate)
        if first != candidate:
            self.report(RULE, f"{voter} votes for {first} and for {candidate} in epoch {epoch}")

    def note_batch(self, who: tuple[str, int], batch: MetadataBatch, driver: RaftDriver) -> None:
        """Take a batch that a node hands out as committed."""
        told = _committed(batch)
        first = self.committed.setdefault(batch.base_offset, told)
        if first != told:
            self.report(
                RULE, f"{who} takes {told} for committed at {batch.base_offset}, where {first} was"
            )
        elif batch.last_offset >= self.end_offset:
            if batch.base_offset > self.end_offset and self.end_offset:
                self.report(
                    RULE, f"{who} takes {batch.base_offset} for committed after {self.end_offset}"
                )
            self.end_offset = batch.last_offset + 1
            self._check_majority(who, batch, driver)

    def _check_majority(
        self, who: tuple[str, int], batch: MetadataBatch, driver: RaftDriver
    ) -> None:
        known = () if driver.core is None else driver.core.voters.voters
        voters = [
            self.hosts_by_id[voter.node_id] for voter in known if voter.node_id in self.hosts_by_id
        ]
        holders = [name for name in voters if self.logs[name].holds(batch.base_offset, batch.epoch)]
        if 2 * len(holders) <= len(known):
            text = f"{who} takes {batch.base_offset} of epoch {batch.epoch} for committed"
            self.report(RULE, f"{text}; of {voters} only {holders} have it durably")


def _committed(batch: MetadataBatch) -> _Committed:
    """Return what a batch says, the same whether it was appended here or read from bytes."""
    kinds = tuple(type(record).__name__ for record in (*batch.records, *batch.control))
    values = [
        encode_metadata_record(record, RECORD_VERSIONS.get(type(record), 0))
        for record in batch.records
    ]
    return _Committed(batch.last_offset, batch.epoch, crc32(b"".join(values)), kinds)


def _driver_of(incarnation: Incarnation) -> RaftDriver | None:
    """Return the metadata log of a process, None before it has one."""
    return incarnation.broker.open_raft


class _Reader:
    """Listens to one process's metadata log."""

    def __init__(self, witness: QuorumWitness, name: str, number: int, driver: RaftDriver) -> None:
        self._witness = witness
        self._who = (name, number)
        self._driver = driver
        self._next_offset = 0
        self.is_open = False

    def on_snapshot(self, snapshot: Snapshot) -> None:
        core = self._driver.core
        if self.is_open and core is not None and isinstance(core.role, Leader):
            self._witness.report(
                RULE, f"{self._who} leads epoch {core.epoch} and loads snapshot {snapshot.id}"
            )
        self._next_offset = snapshot.id.end_offset

    def on_batches(self, batches: Sequence[MetadataBatch]) -> None:
        for batch in batches:
            if batch.base_offset != self._next_offset:
                text = f"hands out what is committed at {batch.base_offset} after all before {self._next_offset}"
                self._witness.report(RULE, f"{self._who} {text}")
            self._next_offset = batch.last_offset + 1
            self._witness.note_batch(self._who, batch, self._driver)

    def on_leader_change(self, leader_id: NodeId, epoch: LeaderEpoch) -> None:
        """Do nothing, because the witness looks at the rules' own state."""


def _end_with_own_vote(core: RaftCore) -> tuple[int, int]:
    """Return epoch and offset at which the part of a log ends that the replica's vote stands for.

    A voter set may leave it out there.
    """
    replica, latest = core.replica, core.replica.history.latest
    log: MetadataLog = replica.log  # type: ignore[assignment]
    if replica.own in latest.voters or latest.offset <= log.start_offset:
        return log.last_epoch, log.end_offset
    return log.log.leader_epochs.epoch_of(latest.offset - 1), latest.offset
