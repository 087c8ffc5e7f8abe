"""Runs one seed.

``sim_run`` gives trio a scheduler and a clock that depend on nothing but the seed.

Each purpose draws from a stream of its own (``draws``): the faults of each node, each connection,
each line of a node's program. ``trace`` and ``digest`` are a run's fingerprint: same seed, same
digest, in any process, whatever ran in it before or runs in its other threads. Trio's generator is
one for all loops of a process, so another thread's loop would draw what is meant for the world:
while a world runs, each thread that is not its own keeps the one from before. No garbage is
collected while a world runs, since a finalizer would run in the middle of it, at a moment that
depends on all that was allocated before; its own is collected when it has ended.
"""

import gc
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import TypeVar

import trio
import trio._core._run as trio_run

from log_service.common.env import Env, NodeEnv
from tests.helpers import collector
from tests.sim.clock import VirtualClock, WorldClock
from tests.sim.disk import Disk
from tests.sim.draws import Draws, Order
from tests.sim.files import MemoryFiles
from tests.sim.network import MemoryNetwork, Weather
from tests.sim.pauses import HOST, Pauses

T = TypeVar("T")


class World(trio.abc.Instrument):
    """Hosts, their disks, the network between them, and the trace of what happened.

    ``active_hosts`` names those of which a task ran, until who looks at them empties it.
    ``crash_rng`` replaces what decides what a loss of power takes.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clock = WorldClock()
        self.rng = Random(f"world {seed}")
        self.crash_rng: Random | None = None
        self.active_hosts: set[str] = set()
        self.network = MemoryNetwork(Random(f"network {seed}"))
        self.pauses = Pauses()
        self.disks: dict[str, Disk] = {}
        self.clocks: dict[str, VirtualClock] = {}
        self.step_count = 0
        self.trace: list[str] = []
        self.pause_counts: Counter[str] = Counter()
        self._starts: dict[str, int] = {}
        self._digest = hashlib.sha256()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count scheduler steps: part of the fingerprint."""
        self.step_count += 1
        self.active_hosts.add(task.context.get(HOST, ""))

    def stream(self, purpose: str) -> Random:
        """Begin the stream of random numbers that is named after a purpose."""
        return Random(f"{purpose} {self.seed}")

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self._digest.hexdigest()} {self.step_count}".encode()).hexdigest()

    def log(self, *what: object) -> None:
        line = f"{trio.current_time():.9f} {self.step_count} {what}"
        self._digest.update(line.encode())
        self.trace.append(line)

    def client_env(self, name: str = "client") -> Env:
        """Return the world of a client on host ``name``."""
        return Env(
            clock=self._clock(name), rng=self._node_rng(name), network=self.network.host(name)
        )

    def node_env(self, name: str) -> NodeEnv:
        """Return the world of a node on host ``name``.

        Its disk outlives it, and its mount does not outlive a crash.
        """
        disk = self.disks.setdefault(name, Disk())
        rng = self._node_rng(name)
        files = MemoryFiles(
            disk,
            rng=Draws(f"files {self.seed} {name} {self._starts[name]}"),
            clock=self._clock(name),
        )
        return NodeEnv(
            clock=self._clock(name), rng=rng, network=self.network.host(name), files=files
        )

    def crash(self, name: str) -> None:
        """Kill a node: its disk is fenced first, then its connections break. The caller cancels its
        tasks.
        """
        self.resume(name)
        self.log("crash", name)
        if name in self.disks:
            disk = self.disks[name]
            disk.crash(self.crash_rng or self.stream(f"crash {name} {disk.generation}"))
        self.network.crash_host(name)

    def kill(self, name: str) -> None:
        """Kill a node's process on a machine that lives: its disk keeps what was written. The
        caller cancels its tasks.
        """
        self.resume(name)
        self.log("kill", name)
        if name in self.disks:
            self.disks[name].kill()
        self.network.crash_host(name)

    def pause(self, name: str) -> None:
        """Stop a node's process; its machine lives."""
        self.log("pause", name)
        self.pause_counts[name] += 1
        self.pauses.pause(name)

    def resume(self, name: str) -> None:
        """Let a node's process go on."""
        if self.pauses.is_paused(name):
            self.log("resume", name)
            self.pauses.resume(name)

    def draw_weather(self) -> Weather:
        """Draw how this seed's network behaves: mild for some, rough for others."""
        pick = self.rng.choice
        return Weather(
            min_latency=0.0001,
            max_latency=pick([0.0005, 0.002, 0.02, 0.1]),
            max_chunk_bytes=pick([0, 64, 1024, 16_384]),
            window_bytes=pick([4 << 10, 64 << 10, 1 << 20]),
        )

    def _clock(self, name: str) -> VirtualClock:
        return self.clocks.setdefault(name, VirtualClock(now=self.clock.current_time))

    def _node_rng(self, name: str) -> Random:
        start = self._starts[name] = self._starts.get(name, 0) + 1
        return Draws(f"node {self.seed} {name} {start}")


def sim_run(seed: int, main: Callable[[World], Awaitable[T]]) -> T:
    """Run ``main(world)`` in virtual time with a schedule drawn from ``seed``, and return its
    result.
    """
    return sim_world(seed, main)[1]


def sim_world(seed: int, main: Callable[[World], Awaitable[T]]) -> tuple[World, T]:
    """The same, and the world after it, for its trace and digest."""
    world = World(seed)
    try:
        with _no_garbage_collected(), _scheduled_by(seed, world.clock):
            return world, trio.run(main, world, clock=world.clock, instruments=[world])
    finally:
        world.pauses.forget()


@contextmanager
def _scheduled_by(seed: int, clock: WorldClock) -> Iterator[None]:
    """Have trio's scheduler in this thread depend on the seed alone."""
    others, was_deterministic = trio_run._r, trio_run._ALLOW_DETERMINISTIC_SCHEDULING
    trio_run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]  # trio's own switch for this purpose
    trio_run._r = Order(seed, others, clock.current_time)
    try:
        yield
    finally:
        trio_run._r = others
        trio_run._ALLOW_DETERMINISTIC_SCHEDULING = was_deterministic  # type: ignore[misc]


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """Set aside all earlier objects, so that they are neither looked through nor finalized here.

    They stay so where a process does that anyway.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    if collector.is_set_aside():
        # What the last test left; a whole collection would go through all modules that were
        # imported since.
        gc.collect(1)
    gc.freeze()
    try:
        yield
    finally:
        if not collector.is_set_aside():
            gc.unfreeze()  # first, or the world before this one, which was referred to until now, would stay for ever
        gc.collect()
        if was_enabled:
            gc.enable()
