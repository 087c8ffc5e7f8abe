"""Faults happen to the nodes of a cluster.

A seed draws the faults, their times and their lengths; the victims show while it runs. A ``Step``
is one fault, or two of which the second begins while the first lasts. ``steps`` decides all of them
beforehand, so that the same seed plays the same faults. A fault names its victim by what it does
(the leader of a partition, the active controller, ...): who that is depends on the run.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from log_service.client import BlockingAdmin, KafkaError
from log_service.storage.checkpoints import RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT
from log_service.storage.running_logs import RUNNING_LOGS_FILE
from tests.chaos.load import GROUP, PARTITION_COUNT, TOPIC
from tests.chaos.network import CLIENTS, Network, Pair
from tests.integration.cluster_nodes import ClusterNodes

KINDS = {
    "kill": 10,
    "stop": 3,
    "pause": 4,
    "kill most": 2,
    "kill all": 1,
    "stop all": 1,
    "roll": 1,
    "isolate": 2,
    "deafen": 2,
    "mute": 2,
    "part": 3,
    "reset": 3,
    "slow": 2,
    "fill": 2,
    "lose": 2,
}
"""Each fault, and how often it comes."""
OF_DISKS = ("fill",)
MOST_OF_PAUSES, ALL_OF_PAUSES = 0.75, 0.9
"""A pause whose draw is above the first number strikes most nodes, above the second one all of
them.
"""
ROLES = ("leader", "leader", "controller", "controller", "coordinator", "follower", "any")
HOLD_SECONDS = (0.05, 0.3, 0.8, 1.5, 4.0, 8.0)
"""Sessions last 3 s, and fetches of voters time out after 2 s: some faults are over before anybody
notices.
"""
CALM_SECONDS = (0.0, 0.2, 1.0, 2.5)
ASK_MS = 2_000
NEARLY_FULL_BYTES = 30 << 20
"""Less than a node keeps back for itself: it refuses records."""
BALLAST = "ballast"
START_SECONDS = 30.0
CLAIM = "was killed and lost nothing"
COMPLAINTS = ("what the last run left is missing or exchanged", "stays offline")
"""How a start says of the last run that it has everything, or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, decided beforehand."""

    kind: str
    role: str
    partition: int
    seconds: float
    draw: float
    """Between 0 and 1, for what is left to decide while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step has faults, each ``gap_seconds`` after the one before.

    ``is_whole`` waits in the end until all replicas are in sync.
    """

    faults: tuple[Fault, ...]
    gap_seconds: float
    calm_seconds: float
    is_whole: bool


def steps(seed: int, count: int, *, has_disks: bool = True) -> list[Step]:
    """Decide so many faults."""
    rng, left, decided = Random(f"cluster {seed}"), count, list[Step]()
    kinds = {kind: weight for kind, weight in KINDS.items() if has_disks or kind not in OF_DISKS}

    def fault() -> Fault:
        (kind,) = rng.choices(list(kinds), list(kinds.values()))
        seconds = rng.choice(HOLD_SECONDS) * rng.uniform(0.5, 1.0)
        return Fault(
            kind=kind,
            role=rng.choice(ROLES),
            partition=rng.randrange(PARTITION_COUNT),
            seconds=seconds,
            draw=rng.random(),
        )

    while left:
        together = min(left, rng.choice((1, 1, 1, 2)))
        decided.append(
            Step(
                faults=tuple(fault() for _ in range(together)),
                gap_seconds=rng.uniform(0.0, 1.5),
                calm_seconds=rng.choice(CALM_SECONDS),
                is_whole=rng.random() < 0.4,
            )
        )
        left -= together
    return decided


class Striker:
    """Strikes the nodes of a cluster. A strike is a generator: it begins the fault, yields while it
    lasts, and ends it.
    """

    def __init__(self, nodes: ClusterNodes, network: Network, told: Callable[[str], None]) -> None:
        self.nodes = nodes
        self.network = network
        self.told = told
        self._struck: list[int] = []
        """Nodes that a fault holds now: another one does not start or resume them."""
        self.filled: set[int] = set()
        """Nodes whose disks were full in this step: one may still be about to end for that when
        there is room again.
        """
        self.broken: list[str] = []
        """Promises that a node has broken."""
        self._acts: dict[str, Callable[[Fault, list[int]], Iterator[None]]] = {
            "kill": self._kill,
            "kill most": self._kill,
            "kill all": self._kill,
            "stop": self._stop,
            "stop all": self._stop_all,
            "pause": self._pause,
            "roll": self._roll,
            "isolate": self._isolate,
            "deafen": self._deafen,
            "mute": self._mute,
            "part": self._part,
            "reset": self._reset,
            "slow": self._slow,
            "fill": self._fill,
            "lose": self._lose,
        }

    def play(self, step: Step) -> None:
        """Play a step to its end: in the end all nodes run, and the network is whole."""
        begun: list[tuple[Iterator[None], float]] = []
        self.filled.clear()
        for fault in step.faults:
            strike = self._strike(fault)
            next(strike)
            begun.append((strike, time.monotonic() + fault.seconds))
            if fault is not step.faults[-1]:
                time.sleep(step.gap_seconds)
        for strike, until in begun:
            time.sleep(max(until - time.monotonic(), 0.0))
            for _ in strike:
                raise AssertionError("a strike yields once")
        time.sleep(step.calm_seconds)

    def _strike(self, fault: Fault) -> Iterator[None]:
        free = [node_id for node_id in self.nodes.running if node_id not in self._struck]
        if not free:
            self.told(f"{fault.kind}: nobody is left")
            yield
            return
        victims = self._victims(fault, free)
        self.told(
            f"{fault.kind} {','.join(map(str, victims))} ({fault.role}) for {fault.seconds:.2f} s"
        )
        self._struck += victims
        yield from self._acts[fault.kind](fault, victims)
        self._struck = [node_id for node_id in self._struck if node_id not in victims]

    def _victims(self, fault: Fault, free: list[int]) -> list[int]:
        if fault.kind in {"kill all", "stop all", "roll"} or (
            fault.kind == "pause" and fault.draw >= ALL_OF_PAUSES
        ):
            return free
        if fault.kind == "kill most" or (fault.kind == "pause" and fault.draw >= MOST_OF_PAUSES):
            return Random(fault.draw).sample(
                free, min(len(free), len(self.nodes.node_ids) // 2 + 1)
            )
        return [self._victim(fault, free)]

    def _victim(self, fault: Fault, free: list[int]) -> int:
        found = free[int(fault.draw * len(free))]
        with suppress(KafkaError):
            found = self._holder(fault, free, found)
        return found

    def _holder(self, fault: Fault, free: list[int], default: int) -> int:
        """The node that has the role of a fault, as the nodes that run say, else ``default``."""
        running = ",".join(f"127.0.0.1:{self.nodes.ports[node_id]}" for node_id in free)
        with BlockingAdmin(running, default_api_timeout_ms=ASK_MS) as admin:
            if fault.role == "controller":
                found = admin.describe_metadata_quorum().leader_id
            elif fault.role == "coordinator":
                found = admin.describe_groups([GROUP])[GROUP].coordinator.node_id
            elif fault.role in {"leader", "follower"}:
                told = admin.describe_topics([TOPIC])[TOPIC].partitions[fault.partition]
                others = [node_id for node_id in told.replicas if node_id != told.leader]
                found = (
                    told.leader if fault.role == "leader" else others[int(fault.draw * len(others))]
                )
            else:
                found = default
        return found if found in free else default

    # Processes

    def _kill(self, _fault: Fault, victims: list[int]) -> Iterator[None]:
        for node_id in victims:
            self.nodes.kill(node_id)
        yield
        self.nodes.launch(*victims)

    def _stop(self, _fault: Fault, victims: list[int]) -> Iterator[None]:
        for node_id in victims:
            self.nodes.stop(node_id)
        yield
        self.nodes.launch(*victims)

    def _stop_all(self, _fault: Fault, victims: list[int]) -> Iterator[None]:
        self.nodes.stop_together(*victims)
        yield
        self.nodes.launch(*victims)

    def _pause(self, _fault: Fault, victims: list[int]) -> Iterator[None]:
        for node_id in victims:
            self.nodes.pause(node_id)
        yield
        for node_id in victims:
            self.nodes.resume(node_id)

    def _roll(self, _fault: Fault, victims: list[int]) -> Iterator[None]:
        yield
        for node_id in victims:
            self.nodes.wait_until_whole(TOPIC)
            self.nodes.stop(node_id)
            self.nodes.launch(node_id)

    # The network

    def _hold(
        self, pairs: Callable[[int, int], list[Pair]]
    ) -> Callable[[Fault, list[int]], Iterator[None]]:
        def strike(_fault: Fault, victims: list[int]) -> Iterator[None]:
            (victim,) = victims
            held = [
                pair
                for other in (CLIENTS, *self.nodes.node_ids)
                if other != victim
                for pair in pairs(victim, other)
            ]
            self.network.hold(held)
            yield
            self.network.release(held)

        return strike

    def _isolate(self, fault: Fault, victims: list[int]) -> Iterator[None]:
        return self._hold(lambda victim, other: [(victim, other), (other, victim)])(fault, victims)

    def _deafen(self, fault: Fault, victims: list[int]) -> Iterator[None]:
        return self._hold(lambda victim, other: [(other, victim)])(fault, victims)

    def _mute(self, fault: Fault, victims: list[int]) -> Iterator[None]:
        return self._hold(lambda victim, other: [(victim, other)])(fault, victims)

    def _part(self, fault: Fault, victims: list[int]) -> Iterator[None]:
        """Two nodes lose sight of each other, while both see everybody else."""
        others = [node_id for node_id in self.nodes.node_ids if node_id not in victims]
        parted = others[int(fault.draw * len(others))]
        return self._hold(
            lambda victim, other: [(victim, other), (other, victim)] if other == parted else []
        )(fault, victims)

    def _reset(self, _fault: Fault, victims: list[int]) -> Iterator[None]:
        for node_id in victims:
            self.network.reset(node_id)
        yield

    def _slow(self, fault: Fault, victims: list[int]) -> Iterator[None]:
        for node_id in victims:
            self.network.delay(node_id, 0.02 + 0.3 * fault.draw)
        yield
        for node_id in victims:
            self.network.delay(node_id, 0.0)

    # Files and disks

    def _lose(self, fault: Fault, victims: list[int]) -> Iterator[None]:
        """Kill a node, and take files from it before its next start. It may then not claim a clean
        stop.

        Where a replica of the topic is not in sync the kill is all: what the files held might be
        nowhere else.
        """
        (victim,) = victims
        is_whole = self._is_whole()
        self.nodes.kill(victim)
        taken = take_files(self.nodes.data(victim), Random(fault.draw)) if is_whole else None
        self.told(f"node {victim} loses {taken or 'nothing'}")
        yield
        known = len(self.nodes.log(victim))
        self.nodes.launch(victim)
        if taken is not None:
            self._judge_start(victim, known, taken)

    def _judge_start(self, victim: int, known: int, taken: str) -> None:
        """Wait until a node has said what it found, after so many characters of its log."""
        deadline, said = time.monotonic() + START_SECONDS, ""
        while not any(text in said for text in (CLAIM, *COMPLAINTS)):
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
            said = self.nodes.log(victim)[known:]
        if CLAIM in said or not any(text in said for text in COMPLAINTS):
            self.broken.append(f"node {victim} did not miss {taken}: {said[-1_000:]}")

    def _is_whole(self) -> bool:
        """Whether all replicas of the topic that loses files are in sync, as the nodes that run
        say.
        """
        with (
            suppress(KafkaError),
            BlockingAdmin(self.nodes.bootstrap, default_api_timeout_ms=ASK_MS) as admin,
        ):
            return all(
                len(each.isr) == len(each.replicas)
                for each in admin.describe_topics([TOPIC])[TOPIC].partitions
            )
        return False

    def _fill(self, fault: Fault, victims: list[int]) -> Iterator[None]:
        """Leave nothing of a disk, or little; a node that ends for that starts again once there is
        room.
        """
        (victim,) = victims
        ballast = self.nodes.data(victim).resolve().parent / BALLAST
        self.filled.add(victim)
        take_room(ballast, 0 if fault.draw < 0.5 else NEARLY_FULL_BYTES)
        yield
        ballast.unlink()
        if self.nodes.ended_by_itself(victim) is not None:
            self.told(f"node {victim} ended for want of room")
            self.nodes.launch(victim)


def take_files(directory: Path, rng: Random) -> str | None:
    """Take something from the log directory of a node that is down, and say it.

    Return None where there is nothing to take.
    """
    topics = [each for each in sorted(directory.glob(f"{TOPIC}-*")) if not each.suffix]
    segments = [path for topic in topics for path in sorted(topic.glob("*.log"))[:-1]]
    names = (RUNNING_LOGS_FILE, RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT)
    files = [path for name in names if (path := directory / name).exists()]
    found = [rng.choice(paths) for paths in (topics, segments, files) if paths]
    if not found:
        return None
    path = rng.choice(found)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    return str(path.relative_to(directory))


def take_room(path: Path, leave_bytes: int) -> None:
    """Write a file that leaves so many bytes of its disk."""
    room = os.statvfs(path.parent)
    size = room.f_bavail * room.f_frsize - leave_bytes
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        with suppress(OSError):  # others take room meanwhile
            os.posix_fallocate(descriptor, 0, max(size, 1))
    finally:
        os.close(descriptor)
