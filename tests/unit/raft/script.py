"""Reads scripts of ``testdata``: commands to a quorum in memory, and below each what then happened.

    command arguments            one line each; lines with # say why
    ----
    what happened

Commands: ``voters 1 2 3`` (records, kraft.version 1) or ``static 1 2 3`` (configuration);
``observer 4``; ``joining N...`` (those shall become voters by themselves); ``upgrade N LEVEL`` (of
kraft.version) and ``check N LEVEL`` (whether it could be); ``start N...``; ``run MS`` lets time
pass, with messages that take no time and disks that sync at once; ``cut N...`` and ``heal``;
``stall N`` and ``sync N`` (the disk); ``append N VALUE...``; ``crash N`` (what is not synced is
lost) and ``restart N``; ``wipe N`` (a new disk); ``lose N`` (an empty disk with the same directory
id); ``snapshot N``; ``add N M`` and ``remove N M`` (operator's requests to N); ``resign N``;
``shutdown N``; ``timer N MS`` (what N draws for its timers); ``refuse`` (from now on the hosts of
processes that are down refuse what is sent to them, and a crash ends the fetches that wait there);
``deaf N FROM...`` (so does N's host what comes from those, though N is alive); ``twin N A``
(another process under N's id, with a directory of its own; it is called A); ``state``; ``log N``.

Elections, changes of roles, of leaders and of voters are told; fetches only where they do not
simply bring records.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from random import Random

from log_service.common.types import NodeId
from log_service.raft.events import (
    AppendControl,
    Effects,
    Event,
    ResignAsked,
    ShutdownBegan,
    StoreSlice,
    TruncateTo,
)
from log_service.raft.leader import Leader
from log_service.raft.log_view import BOOTSTRAP_SNAPSHOT
from log_service.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchResponse,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    UpgradeRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from log_service.raft.voters import NO_DIRECTORY, VoterSet
from tests.unit.raft.quorum import CONFIG, Disk, Message, Process, directory, first_disk, voter

MAX_MESSAGES = 5_000


class NothingLost(Random):
    """A disk that loses all that was not synced."""

    def randint(self, a: int, b: int) -> int:
        return a


class Script:
    """One script's quorum."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.told: list[str] = []
        self.disks: dict[int, Disk] = {}
        self.processes: dict[int, Process] = {}
        self.static = VoterSet()
        self.first = VoterSet()
        self.cut_ids: set[int] = set()
        self.drawn: dict[int, int] = {}
        self.queue: list[Message] = []
        self.roles: dict[int, str] = {}
        self.wiped_count = 0
        self.is_refusing = False
        self.deaf_ids: set[tuple[int, int]] = set()
        self.joining_ids: set[int] = set()
        self.twin_ids: set[int] = set()

    # Commands

    def perform(self, line: str) -> None:
        name, *arguments = line.split()
        getattr(self, f"do_{name}")(*arguments)

    def do_voters(self, *ids: str) -> None:
        self.first = VoterSet(tuple(voter(int(each)) for each in ids))
        self.disks = {int(each): first_disk(int(each), self.first) for each in ids}

    def do_static(self, *ids: str) -> None:
        self.static = VoterSet(
            tuple(replace(voter(int(each)), directory_id=NO_DIRECTORY) for each in ids)
        )
        self.disks = {int(each): first_disk(int(each)) for each in ids}

    def do_observer(self, node_id: str) -> None:
        self.disks[int(node_id)] = first_disk(int(node_id))
        self.do_start(node_id)

    def do_start(self, *ids: str) -> None:
        for each in ids:
            node_id = int(each)
            self.processes[node_id] = Process(
                node_id,
                self.disks[node_id],
                static_voters=self.static,
                bootstrap_ids=tuple(self.disks),
                draw=lambda count, node_id=node_id: (
                    self.drawn.get(node_id, (node_id - 1) * 300) % count
                ),  # type: ignore[misc]
                post=self.queue.append,
                watch=self.watch,
                config=replace(CONFIG, is_auto_join_enabled=node_id in self.joining_ids),
            )
            self.processes[node_id].start(self.now_ms)
        self.settle()

    do_restart = do_start

    def do_twin(self, node_id: str, address: str) -> None:
        own, at = int(node_id), int(address)
        self.disks[at] = first_disk(at)
        self.processes[at] = Process(
            own,
            self.disks[at],
            static_voters=self.static,
            bootstrap_ids=tuple(each for each in self.disks if each != at),
            draw=lambda _count: 0,
            post=self.queue.append,
            watch=self.watch,
            config=replace(CONFIG, is_auto_join_enabled=own in self.joining_ids),
            address=at,
        )
        self.processes[at].start(self.now_ms)
        self.settle()

    def do_run(self, duration_ms: str) -> None:
        end_ms = self.now_ms + int(duration_ms)
        self.settle()
        while (due_ms := self.next_deadline()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            for process in self.processes.values():
                if (
                    process.is_running
                    and process.deadline_ms is not None
                    and process.deadline_ms <= self.now_ms
                ):
                    process.tick(self.now_ms)
            self.settle()
        self.now_ms = end_ms

    def next_deadline(self) -> int | None:
        return min(
            (
                each.deadline_ms
                for each in self.processes.values()
                if each.is_running and each.deadline_ms is not None
            ),
            default=None,
        )

    def do_cut(self, *ids: str) -> None:
        self.cut_ids = {int(each) for each in ids}

    def do_heal(self) -> None:
        self.cut_ids = set()

    def do_stall(self, node_id: str) -> None:
        self.processes[int(node_id)].is_stalled = True

    def do_sync(self, node_id: str) -> None:
        self.processes[int(node_id)].is_stalled = False
        self.settle()

    def do_append(self, node_id: str, *values: str) -> None:
        for value in values:
            if not self.processes[int(node_id)].append(value, self.now_ms):
                self.tell(f"{node_id}: {value} is refused, NOT_CONTROLLER")
        self.settle()

    def do_crash(self, node_id: str) -> None:
        if self.is_refusing:
            self.end_fetches_at(node_id, tuple(self.processes))
        self.processes[int(node_id)].is_running = False
        self.disks[int(node_id)].crash(NothingLost())
        self.roles.pop(int(node_id), None)

    def do_wipe(self, node_id: str) -> None:
        self.do_crash(node_id)
        self.wiped_count += 1
        self.disks[int(node_id)] = Disk(directory(100 * self.wiped_count + int(node_id)))

    def do_lose(self, node_id: str) -> None:
        """Lose a disk's content and keep its directory id: what never may happen."""
        kept = self.disks[int(node_id)]
        self.disks[int(node_id)] = Disk(kept.directory_id)
        self.disks[int(node_id)].log.snapshots[BOOTSTRAP_SNAPSHOT] = first_disk(
            int(node_id), self.first
        ).log.snapshots[BOOTSTRAP_SNAPSHOT]

    def do_snapshot(self, node_id: str) -> None:
        self.tell(f"{node_id}: takes {_snapshot(self.processes[int(node_id)].snapshot())}")

    def do_add(self, node_id: str, added_id: str) -> None:
        number = self.disks[int(added_id)].directory_id.int - 1_000
        self.ask(node_id, AddVoterRequest(voter=voter(int(added_id), number)))

    def do_joining(self, *ids: str) -> None:
        self.joining_ids |= {int(each) for each in ids}

    def do_upgrade(self, node_id: str, level: str) -> None:
        self.ask(node_id, UpgradeRequest(kraft_version=int(level)))

    def do_check(self, node_id: str, level: str) -> None:
        self.ask(node_id, UpgradeRequest(kraft_version=int(level), is_only_checked=True))

    def do_remove(self, node_id: str, removed_id: str) -> None:
        known = self.processes[int(node_id)].core.voters.get(NodeId(int(removed_id)))
        self.ask(
            node_id, RemoveVoterRequest(voter=known.key if known else voter(int(removed_id)).key)
        )

    def ask(self, node_id: str, request: Request) -> None:
        process = self.processes[int(node_id)]
        process.ask(len(self.told), request, self.now_ms)
        self.settle()
        self.tell_outcomes(process)

    def tell_outcomes(self, process: Process) -> None:
        for response in process.outcomes.values():
            reason = (
                f", {response.message}"
                if isinstance(response, VoterChangeResponse)
                and response.message.startswith("kraft")
                else ""
            )
            self.tell(f"{process.node_id}: responds {response.error.name}{reason}")
        process.outcomes.clear()

    def do_resign(self, node_id: str) -> None:
        process = self.processes[int(node_id)]
        process.step(ResignAsked(epoch=process.core.epoch), self.now_ms)
        self.settle()

    def do_shutdown(self, node_id: str) -> None:
        self.processes[int(node_id)].step(ShutdownBegan(), self.now_ms)
        self.settle()

    def do_refuse(self) -> None:
        self.is_refusing = True

    def do_deaf(self, node_id: str, *sender_ids: str) -> None:
        senders = {int(each) for each in sender_ids}
        self.deaf_ids |= {(int(node_id), sender_id) for sender_id in senders}
        self.end_fetches_at(node_id, senders)

    def end_fetches_at(self, node_id: str, senders: Collection[int]) -> None:
        role = self.processes[int(node_id)].core.role
        for fetch in role.parked if isinstance(role, Leader) else ():
            assert isinstance(fetch.reply_to, Message)
            if fetch.reply_to.sender in senders:
                self.queue.append(fetch.reply_to.refusal())

    def do_timer(self, node_id: str, drawn_ms: str) -> None:
        self.drawn[int(node_id)] = int(drawn_ms)

    def do_state(self) -> None:
        for node_id, process in sorted(self.processes.items()):
            core, log = process.core, process.disk.log
            leader = core.leader_id if core.leader_id >= 0 else "none"
            if process.is_running:
                text = f"epoch={core.epoch} leader={leader} hw={core.high_watermark} log=[{log.start_offset},{log.end_offset})"
                self.tell(f"{node_id}: {core.role_name} {text} synced={log.synced_end_offset}")
            else:
                self.tell(f"{node_id}: down")

    def do_log(self, node_id: str) -> None:
        log = self.disks[int(node_id)].log
        self.tell(f"{node_id}: {' '.join(str(entry) for entry in log.entries) or 'nothing'}")

    # The world

    def settle(self) -> None:
        """Deliver messages and sync disks until nothing moves at this moment."""
        count = 0
        while self.queue or self.sync_one():
            count += 1
            assert count < MAX_MESSAGES, "the quorum does not come to rest"
            if self.queue:
                self.deliver(self.queue.pop(0))

    def sync_one(self) -> bool:
        return any(
            each.is_running and not each.is_stalled and each.sync(self.now_ms)
            for each in self.processes.values()
        )

    def deliver(self, message: Message) -> None:
        receiver = self.processes.get(message.receiver)
        is_cut = (message.sender in self.cut_ids) != (message.receiver in self.cut_ids)
        is_gone = self.is_refusing and receiver is not None and not receiver.is_running
        if (
            not is_cut
            and not message.is_response
            and (is_gone or (message.receiver, message.sender) in self.deaf_ids)
        ):
            self.processes[message.sender].receive(message.refusal(), self.now_ms)
            return
        if is_cut or receiver is None or not receiver.is_running:
            return
        if _is_told(message):
            self.tell(f"{message.sender} -> {message.receiver}: {_text(message)}")
        receiver.receive(message, self.now_ms)
        self.tell_outcomes(receiver)

    def watch(self, process: Process, _event: Event, effects: Effects) -> None:
        core, node_id = process.core, process.address
        role = f"{core.role_name} epoch={core.epoch}"
        if role != self.roles.get(node_id):
            self.tell(f"{node_id}: {role}")
            self.roles[node_id] = role
        for line in _log_changes(effects):
            self.tell(f"{node_id}: {line}")
        if effects.voting_directory is not None:
            self.tell(
                f"{node_id}: has no vote, node {process.node_id} votes from directory {effects.voting_directory.int - 1_000}"
            )
        if effects.twins is not None and effects.twins.node_id not in self.twin_ids:
            self.twin_ids.add(effects.twins.node_id)
            directories = sorted(each.int - 1_000 for each in effects.twins.directory_ids)
            self.tell(
                f"{node_id}: hears two processes as node {effects.twins.node_id}, from directories {directories}"
            )
        if (
            effects.leader is not None
            and isinstance(core.role, Leader)
            and effects.leader[0] == node_id
        ):
            self.tell(f"{node_id}: leads epoch {core.epoch}, hw={core.high_watermark}")
        if effects.failure:
            self.tell(f"{node_id}: ends: {effects.failure}")

    def tell(self, text: str) -> None:
        self.told.append(f"{self.now_ms:>6} {text}")


def _is_told(message: Message) -> bool:
    if isinstance(
        message.request, BeginQuorumEpochRequest | EndQuorumEpochRequest | UpdateVoterRequest
    ):
        return not message.is_response
    if isinstance(message.request, AddVoterRequest | RemoveVoterRequest):
        return True
    response = message.response
    is_way_back = isinstance(response, FetchResponse) and (
        response.diverging is not None or response.snapshot_id is not None
    )
    return isinstance(message.request, VoteRequest) or is_way_back


def _text(message: Message) -> str:
    return (
        _response(message.response) if message.response is not None else _request(message.request)
    )


def _request(request: Request) -> str:
    match request:
        case VoteRequest():
            name = "pre-vote?" if request.is_pre_vote else "vote?"
            return f"{name} epoch={request.epoch} last={request.last_epoch}:{request.end_offset}"
        case BeginQuorumEpochRequest():
            return f"begin epoch={request.epoch}"
        case EndQuorumEpochRequest():
            return f"end epoch={request.epoch} successors={[key.node_id for key in request.successors]}"
        case _:
            return type(request).__name__


def _response(response: Response) -> str:
    error = f" {response.error.name}" if response.error else ""
    match response:
        case VoteResponse():
            return f"{'yes' if response.is_granted else 'no'}{error}"
        case FetchResponse() if response.diverging is not None:
            return f"diverging epoch={response.diverging.epoch} end={response.diverging.end_offset}"
        case FetchResponse():
            return f"fetch {_snapshot(response.snapshot_id)} first"
        case _:
            return f"{type(response).__name__}{error}"


def _snapshot(snapshot_id: object) -> str:
    return (
        f"snapshot {snapshot_id.end_offset}-{snapshot_id.epoch}" if snapshot_id else "no snapshot"  # type: ignore[attr-defined]
    )


def _log_changes(effects: Effects) -> Iterator[str]:
    change = effects.log_change
    match change:
        case TruncateTo():
            yield f"cuts its log at {change.offset}"
        case StoreSlice() if change.is_last:
            yield f"begins anew behind snapshot {change.snapshot_id.end_offset}-{change.snapshot_id.epoch}"
        case AppendControl() if change.voters is not None:
            level = (
                f" and kraft.version {change.kraft_version}"
                if change.granting_ids is None and change.kraft_version is not None
                else ""
            )
            yield f"writes voters {[each.node_id for each in change.voters]}{level}"
        case _:
            pass


def play(text: str) -> str:
    """Return a script with what happens now below each of its commands."""
    script, lines = Script(), []
    for block in text.strip().split("\n\n"):
        commands = [
            line for line in block.split("\n----", maxsplit=1)[0].splitlines() if line != "----"
        ]
        script.told.clear()
        for command in commands:
            if command and not command.startswith("#"):
                script.perform(command)
        lines.append("\n".join([*commands, "----", *script.told]).rstrip())
    return "\n\n".join(lines) + "\n"
