"""One seed runs a quorum of three to five replicas.

Messages are lost, late and out of order, and crashes lose unsynced tails. After every step the
promises of the quorum are checked; at the end everything heals, and the quorum must commit again.

    python -m tests.unit.raft.quorum_sim 10000          seeds 0 to 9999
    python -m tests.unit.raft.quorum_sim 17 --trace     seed 17, told
"""

import argparse
import heapq
import sys
from random import Random

from log_service.common.types import NodeId
from log_service.raft.events import (
    AppendControl,
    Effects,
    Event,
    RequestArrived,
    ResignAsked,
    ResponseArrived,
    SnapshotInstalled,
)
from log_service.raft.leader import Leader
from log_service.raft.messages import (
    AddVoterRequest,
    FetchRequest,
    RemoveVoterRequest,
    VoteRequest,
    VoteResponse,
)
from log_service.raft.roles import Candidate, Follower
from log_service.raft.voters import ReplicaKey, VoterSet
from tests.unit.raft.quorum import (
    Disk,
    Entry,
    Message,
    Process,
    Voters,
    directory,
    first_disk,
    voter,
)

FAULT_MS = 10_000
HEAL_MS = 8_000
MAX_STEPS = 60_000


class BrokenPromiseError(AssertionError):
    """A promise of the quorum does not hold."""


class Promises:
    """The promises that hold after every step, whatever breaks.

    They are one leader per epoch, and that nothing committed is lost.
    """

    def __init__(self) -> None:
        self.leaders: dict[int, tuple[int, object]] = {}
        self.committed: list[Entry] = []
        self.written: dict[tuple[int, int], object] = {}
        self.votes: dict[tuple[int, object, int], ReplicaKey] = {}
        self.epochs: dict[object, int] = {}
        self.high_watermarks: dict[int, int] = {}
        self.lengths: dict[object, int] = {}

    def check(
        self,
        process: Process,
        event: Event,
        effects: Effects,
        disks: dict[object, Disk],
        now_ms: int,
    ) -> None:
        """Check one replica after one step.

        Raises:
            BrokenPromiseError: one does not hold.
        """
        core, disk = process.core, process.disk
        self._expect(process.failure is None, f"node {process.node_id} ends: {process.failure}")
        known_epoch = self.epochs.get(disk.directory_id, 0)
        self._expect(
            core.epoch >= known_epoch,
            f"node {process.node_id} goes from epoch {known_epoch} back to {core.epoch}",
        )
        self.epochs[disk.directory_id] = core.epoch
        if isinstance(core.role, Leader):
            self._check_leader(process, core.role, event)
        self._check_votes(process, effects, now_ms)
        self._check_promise_of_fetches(process, effects)
        self._check_written(process)
        self._check_high_watermark(process, disks)

    def _check_leader(self, process: Process, leader: Leader, event: Event) -> None:
        this = (process.node_id, process)
        is_new = leader.epoch not in self.leaders
        first = self.leaders.setdefault(leader.epoch, this)
        self._expect(
            first == this, f"epoch {leader.epoch} is led by node {first[0]} and node {this[0]}"
        )
        log = process.disk.log
        if is_new:
            self._expect(
                log.end_offset >= len(self.committed),
                f"leader {process.node_id} of epoch {leader.epoch} lacks what is committed",
            )
        is_started = leader.high_watermark < 0 or leader.high_watermark > leader.epoch_start_offset
        self._expect(
            is_started,
            f"leader {process.node_id} commits {leader.high_watermark} before the start of its epoch",
        )
        self._expect(
            not isinstance(event, SnapshotInstalled), f"leader {process.node_id} loads a snapshot"
        )

    def _check_votes(self, process: Process, effects: Effects, now_ms: int) -> None:
        for reply_to, response in effects.replies:
            if (
                not isinstance(response, VoteResponse)
                or not response.is_granted
                or not isinstance(reply_to, Message)
            ):
                continue
            request = reply_to.request
            assert isinstance(request, VoteRequest)
            if request.is_pre_vote:
                role = process.core.role
                hears = isinstance(role, Leader) or (
                    isinstance(role, Follower)
                    and role.has_fetched
                    and role.fetch_deadline_ms > now_ms
                )
                self._expect(
                    not hears, f"node {process.node_id} hears its leader, and grants a pre-vote"
                )
                continue
            key = (process.node_id, process.disk.directory_id, request.epoch)
            first = self.votes.setdefault(key, request.candidate)
            self._expect(
                first == request.candidate,
                f"node {process.node_id} votes twice in epoch {request.epoch}",
            )
            state = process.disk.state
            is_kept = (
                state is not None
                and state.leader_epoch == request.epoch
                and state.voted == request.candidate
            )
            self._expect(is_kept, f"node {process.node_id} votes without writing it down")
        role = process.core.role
        if isinstance(role, Candidate):
            key = (process.node_id, process.disk.directory_id, role.epoch)
            own = ReplicaKey(NodeId(process.node_id), process.disk.directory_id)
            self._expect(
                self.votes.setdefault(key, own) == own,
                f"node {process.node_id} votes twice in epoch {role.epoch}",
            )

    def _check_promise_of_fetches(self, process: Process, effects: Effects) -> None:
        for send in effects.sends:
            if isinstance(send.request, FetchRequest):
                synced = process.disk.log.synced_end_offset
                self._expect(
                    send.request.fetch_offset <= synced,
                    f"node {process.node_id} fetches from above what it has synced",
                )
        change = effects.log_change
        if (
            isinstance(change, AppendControl)
            and change.voters is not None
            and change.granting_ids is None
        ):
            leader = process.core.role
            assert isinstance(leader, Leader)
            earlier = process.core.history.at(process.disk.log.end_offset - len([change.voters]))
            self._expect(
                earlier.offset < leader.high_watermark,
                f"node {process.node_id} changes voters before the last change is committed",
            )

    def _check_written(self, process: Process) -> None:
        """One value per epoch and offset, for ever."""
        log = process.disk.log
        first = min(self.lengths.get(process, 0), log.end_offset)
        for offset in range(max(log.start_offset, first), log.end_offset):
            entry = log.entry(offset)
            assert entry is not None
            known = self.written.setdefault((entry.epoch, offset), entry.value)
            self._expect(
                known == entry.value,
                f"offset {offset} of epoch {entry.epoch} holds {known} and {entry.value}",
            )
        self.lengths[process] = log.end_offset

    def _check_high_watermark(self, process: Process, disks: dict[object, Disk]) -> None:
        high_watermark = process.core.high_watermark
        known = self.high_watermarks.get(id(process), -1)
        self._expect(
            high_watermark >= known,
            f"the high watermark of node {process.node_id} goes back from {known} to {high_watermark}",
        )
        self.high_watermarks[id(process)] = high_watermark
        log = process.disk.log
        if high_watermark > known:
            self._expect(
                high_watermark <= log.end_offset,
                f"node {process.node_id} knows {high_watermark} committed and does not have it",
            )
            self._check_committed(process, max(known, 0), high_watermark)
        if high_watermark > len(self.committed):
            self._commit(process, high_watermark, disks)

    def _check_committed(self, process: Process, first: int, end_offset: int) -> None:
        prefix = process.disk.log.prefix(end_offset)
        for offset in range(first, min(end_offset, len(self.committed))):
            found = prefix[offset]
            self._expect(
                found == self.committed[offset],
                f"node {process.node_id}: {offset} is {found}, was {self.committed[offset]}",
            )

    def _commit(self, process: Process, end_offset: int, disks: dict[object, Disk]) -> None:
        """Note what is committed for the first time: a majority of the voters has synced it."""
        prefix = process.disk.log.prefix(end_offset)
        self.committed += prefix[len(self.committed) :]
        voters = process.core.voters
        holders = [
            each
            for each in voters
            if each.directory_id in disks and holds(disks[each.directory_id], self.committed)
        ]
        text = f"{end_offset} is committed, but only {[each.node_id for each in holders]} of {[each.node_id for each in voters]} have it"
        self._expect(len(holders) >= voters.majority_count, text)

    @staticmethod
    def _expect(is_kept: bool, text: str) -> None:
        if not is_kept:
            raise BrokenPromiseError(text)


def holds(disk: Disk, committed: list[Entry]) -> bool:
    """Whether a disk holds all that is committed, durably."""
    log = disk.log
    if log.synced_end_offset < len(committed):
        return False
    last = log.entry(len(committed) - 1)
    if last is not None:
        return last == committed[-1]
    return log.latest_snapshot is not None and log.latest_snapshot.end_offset >= len(committed)


class Sim:
    """One run."""

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        self.rng = Random(f"quorum {seed}")
        self.refusals = Random(f"refusals {seed}")
        self.refused, self.lies = (
            self.refusals.choice((0.0, 0.5, 1.0)),
            self.refusals.choice((0.0, 0.0, 0.3)),
        )
        """How often the host of a process that is down refuses, and how often a refusal is what is
        told of a message that is lost.
        """
        self.is_traced = is_traced
        self.now_ms = 0
        self.promises = Promises()
        self.voter_ids = tuple(range(1, self.rng.choice((3, 3, 3, 4, 5)) + 1))
        self.is_dynamic = self.rng.random() < 0.6
        self.static = (
            VoterSet()
            if self.is_dynamic
            else VoterSet(tuple(voter(each) for each in self.voter_ids))
        )
        first = VoterSet(tuple(voter(each) for each in self.voter_ids)) if self.is_dynamic else None
        self.ids = (*self.voter_ids, max(self.voter_ids) + 1)
        self.disks: dict[int, Disk] = {
            each: first_disk(each, first if each in self.voter_ids else None) for each in self.ids
        }
        self.all_disks: dict[object, Disk] = {
            disk.directory_id: disk for disk in self.disks.values()
        }
        self.processes: dict[int, Process] = {}
        self.cuts: set[tuple[int, int]] = set()
        self.wiped_count = 0
        self.start_count = 0
        self.value_count = 0
        self.step_count = 0
        pick = self.rng.choice
        self.loss = pick((0.0, 0.0, 0.02, 0.1))
        self.latency_ms = pick((1, 5, 40, 150))
        self.sync_ms = pick((0, 2, 30, 200))
        self.fault_ms = pick((150, 400, 1_200))
        self.weights = {
            name: self.rng.choice((0, 1, 3))
            for name in ("crash", "cut", "stall", "resign", "snapshot", "voters", "wipe")
        }
        self._events: list[tuple[int, int, str, object]] = []
        self._ticks: dict[int, int] = {}

    # The world

    def at(self, delay_ms: int, kind: str, what: object = None) -> None:
        self.step_count += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self.step_count, kind, what))

    def tell(self, *what: object) -> None:
        if self.is_traced:
            sys.stdout.write(" ".join(str(each) for each in (self.now_ms, *what)) + "\n")

    def start(self, node_id: int) -> None:
        process = self.processes[node_id] = Process(
            node_id,
            self.disks[node_id],
            static_voters=self.static,
            bootstrap_ids=self.ids,
            draw=self.rng.randrange,
            post=self.post,
            watch=self.watch,
        )
        self.promises.lengths[process] = 0
        self.start_count += 1
        # No response to an earlier process counts.
        process.core.replica.connections._last_id = self.start_count * 1_000_000
        process.start(self.now_ms)

    def post(self, message: Message) -> None:
        """Carry a message, or lose it; then its request fails, sooner or later or never."""
        delay_ms = self.rng.randint(1, self.latency_ms) if self.latency_ms > 1 else 1
        is_cut = (message.sender, message.receiver) in self.cuts or (
            message.receiver,
            message.sender,
        ) in self.cuts
        if is_cut or self.rng.random() < self.loss:
            if self.rng.random() < 0.7:
                sender = message.receiver if message.is_response else message.sender
                receiver = message.sender if message.is_response else message.receiver
                is_refused = self.refusals.random() < self.lies
                lost = Message(
                    receiver,
                    sender,
                    message.request_id,
                    message.request,
                    is_response=True,
                    is_refused=is_refused,
                )
                self.at(
                    delay_ms + self.rng.randint(0, 300),
                    "message",
                    (lost, self.processes.get(sender)),
                )
            return
        self.at(delay_ms, "message", (message, self.processes.get(message.receiver)))

    def watch(self, process: Process, event: Event, effects: Effects) -> None:
        if self.is_traced:
            self.tell(
                process.core,
                type(event).__name__,
                _brief(event),
                effects.log_change or "",
                len(effects.sends),
            )
        self.promises.check(process, event, effects, self.all_disks, self.now_ms)
        log = process.disk.log
        if log.synced_end_offset < log.end_offset and not process.is_stalled:
            self.at(self.rng.randint(0, self.sync_ms), "sync", process)
        if (
            process.deadline_ms is not None
            and self._ticks.get(process.node_id, 1 << 60) > process.deadline_ms
        ):
            self._ticks[process.node_id] = process.deadline_ms
            self.at(max(0, process.deadline_ms - self.now_ms), "tick", process.node_id)

    # A run

    def run(self) -> None:
        """Break things, heal, and expect the quorum to go on.

        Raises:
            BrokenPromiseError: a promise does not hold.
        """
        for node_id in self.ids:
            self.start(node_id)
        self.at(0, "append")
        self.at(self.fault_ms, "fault")
        self._play(FAULT_MS)
        self._heal()
        count = len(self.promises.committed)
        self._play(FAULT_MS + HEAL_MS)
        self._check_liveness(count)

    def _play(self, end_ms: int) -> None:
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, kind, what = heapq.heappop(self._events)
            getattr(self, f"_do_{kind}")(what)
            if self.step_count > MAX_STEPS:
                raise BrokenPromiseError("the quorum does not come to rest: a replica spins")
        self.now_ms = end_ms

    def _do_message(self, what: tuple[Message, Process | None]) -> None:
        message, process = what
        if process is not None and process.is_running:
            process.receive(message, self.now_ms)
        elif not message.is_response and self.refusals.random() < self.refused:
            self.at(1, "message", (message.refusal(), self.processes.get(message.sender)))

    def _do_sync(self, process: Process) -> None:
        if process.is_running and not process.is_stalled:
            process.sync(self.now_ms)

    def _do_tick(self, node_id: int) -> None:
        self._ticks.pop(node_id, None)
        self.processes[node_id].tick(self.now_ms)

    def _do_append(self, _: object) -> None:
        for process in self.processes.values():
            if process.is_running and self.rng.random() < 0.8:
                self.value_count += 1
                process.append(f"v{self.value_count}", self.now_ms)
        self.at(self.rng.randint(20, 400), "append")

    def _do_fault(self, _: object) -> None:
        if self.now_ms < FAULT_MS:
            kinds = [kind for kind, weight in self.weights.items() for _ in range(weight)]
            if kinds:
                getattr(self, f"_fault_{self.rng.choice(kinds)}")()
            self.at(self.rng.randint(1, 2 * self.fault_ms), "fault")

    def _fault_crash(self) -> None:
        node_id = self.rng.choice(self.ids)
        process = self.processes[node_id]
        if process.is_running:
            self.tell("crash", node_id)
            process.is_running = False
            self.disks[node_id].crash(self.rng)
            self.at(self.rng.choice((1, 300, 3_000)), "restart", node_id)

    def _do_restart(self, node_id: int) -> None:
        if not self.processes[node_id].is_running:
            self.tell("restart", node_id)
            self.start(node_id)

    def _fault_cut(self) -> None:
        if self.cuts and self.rng.random() < 0.6:
            self.cuts.clear()
            return
        side = self.rng.sample(self.ids, self.rng.randint(1, 2))
        self.tell("cut", side)
        self.cuts = {(a, b) for a in side for b in self.ids if b not in side}

    def _fault_stall(self) -> None:
        process = self.processes[self.rng.choice(self.ids)]
        process.is_stalled = not process.is_stalled
        self.at(self.rng.randint(0, 1_000), "unstall", process)

    def _do_unstall(self, process: Process) -> None:
        process.is_stalled = False
        self._do_sync(process)

    def _fault_resign(self) -> None:
        process = self.processes[self.rng.choice(self.ids)]
        process.step(ResignAsked(epoch=process.core.epoch), self.now_ms)

    def _fault_snapshot(self) -> None:
        process = self.processes[self.rng.choice(self.ids)]
        if process.is_running:
            process.snapshot(keep=self.rng.choice((1, 2)))

    def _fault_voters(self) -> None:
        """Let an operator ask each leader to add or remove a voter."""
        for process in self.processes.values():
            if isinstance(process.core.role, Leader) and process.is_running:
                self._change_voters(process)

    def _change_voters(self, process: Process) -> None:
        voters = process.core.voters
        outside = [
            each
            for each in self.ids
            if ReplicaKey(NodeId(each), self.disks[each].directory_id) not in voters
        ]
        gone = [
            each for each in voters if self.disks[each.node_id].directory_id != each.directory_id
        ]
        if gone:
            process.ask(self.step_count, RemoveVoterRequest(voter=gone[0].key), self.now_ms)
        elif outside and (len(voters) <= 3 or self.rng.random() < 0.6):
            added = voter(outside[0], self.disks[outside[0]].directory_id.int - 1_000)
            process.ask(self.step_count, AddVoterRequest(voter=added), self.now_ms)
        elif len(voters) > 3:
            process.ask(
                self.step_count,
                RemoveVoterRequest(voter=self.rng.choice(voters.voters).key),
                self.now_ms,
            )

    def _fault_wipe(self) -> None:
        """Give a node a new, empty disk, at most one in a run: what is committed stays with a
        majority.
        """
        node_id = self.rng.choice(self.ids)
        if self.wiped_count or not self.is_dynamic or len(self.promises.committed) < 5:
            return
        holders = [
            each for each in self.voter_ids if holds(self.disks[each], self.promises.committed)
        ]
        if len(holders) < len(self.voter_ids) or self._is_voter_change_open():
            return
        self.wiped_count += 1
        self.tell("wipe", node_id)
        self.processes[node_id].is_running = False
        self.disks[node_id] = Disk(directory(100 + node_id))
        self.all_disks[self.disks[node_id].directory_id] = self.disks[node_id]
        self.start(node_id)

    def _is_voter_change_open(self) -> bool:
        """Whether a disk holds voters that are not committed.

        A replica that they leave out stands for no election, as in Apache Kafka, though its vote
        may be needed until they are committed: a disk that is lost in that moment can stop the
        quorum.
        """
        count = len(self.promises.committed)
        logs = [disk.log for disk in self.disks.values()]
        return any(
            isinstance(entry.value, Voters)
            for log in logs
            for entry in log.entries[max(0, count - log.start_offset) :]
        )

    def _heal(self) -> None:
        self.tell("heal")
        self.cuts.clear()
        self.loss, self.latency_ms, self.sync_ms = (
            0.0,
            min(self.latency_ms, 40),
            min(self.sync_ms, 30),
        )
        for node_id, process in list(self.processes.items()):
            process.is_stalled = False
            if process.is_running:
                self._do_sync(process)
            else:
                self._do_restart(node_id)

    def _check_liveness(self, committed_count: int) -> None:
        if len(self.promises.committed) <= committed_count:
            raise BrokenPromiseError(
                f"nothing was committed after everything had healed: {[process.core for process in self.processes.values()]}"
            )
        leaders = [
            process for process in self.processes.values() if isinstance(process.core.role, Leader)
        ]
        if len(leaders) != 1:
            raise BrokenPromiseError(f"{len(leaders)} lead after everything had healed")
        lagging = [
            each.node_id
            for each in self.processes.values()
            if each.core.high_watermark < committed_count
        ]
        if lagging:
            raise BrokenPromiseError(f"nodes {lagging} do not learn what is committed")


def _brief(event: Event) -> str:
    match event:
        case RequestArrived():
            return f"{event.request}"
        case ResponseArrived():
            return f"{event.peer_id} {event.response}"
        case _:
            return ""


def run_seed(seed: int, *, is_traced: bool = False) -> Sim:
    """Play one seed.

    Raises:
        BrokenPromiseError: a promise does not hold; it names the seed.
    """
    sim = Sim(seed, is_traced=is_traced)
    try:
        sim.run()
    except BrokenPromiseError as broken:
        raise BrokenPromiseError(f"seed {seed} at {sim.now_ms} ms: {broken}") from broken
    return sim


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--trace", action="store_true")
    arguments = parser.parse_args()
    if arguments.trace:
        run_seed(arguments.count, is_traced=True)
        return 0
    failed = 0
    for seed in range(arguments.first, arguments.first + arguments.count):
        try:
            run_seed(seed)
        except BrokenPromiseError as broken:
            failed += 1
            sys.stdout.write(f"{broken}\n")
    sys.stdout.write(f"{arguments.count - failed} of {arguments.count} seeds kept every promise\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
