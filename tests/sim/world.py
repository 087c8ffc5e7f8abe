"""One seed, one run: ``sim_run`` gives trio a scheduler and a clock that depend on nothing but the seed.

The world's generator (weather, faults) is apart from those of the nodes, so that another fault does not change what a node draws.
``trace`` and ``digest`` are a run's fingerprint: same seed, same digest, in any process.
"""

import hashlib
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

import trio
import trio._core._run as trio_run
from trio.testing import MockClock

from log_service.common.env import Env, NodeEnv
from tests.sim.clock import VirtualClock
from tests.sim.disk import Disk
from tests.sim.files import MemoryFiles
from tests.sim.network import MemoryNetwork, Weather

T = TypeVar("T")


class World(trio.abc.Instrument):
    """Hosts, their disks, the network between them, and the trace of what happened."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(f"world {seed}")
        self.network = MemoryNetwork(Random(f"network {seed}"))
        self.disks: dict[str, Disk] = {}
        self.clocks: dict[str, VirtualClock] = {}
        self.step_count = 0
        self.trace: list[str] = []
        self._starts: dict[str, int] = {}
        self._digest = hashlib.sha256()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count scheduler steps: part of the fingerprint."""
        self.step_count += 1

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self._digest.hexdigest()} {self.step_count}".encode()).hexdigest()

    def log(self, *what: object) -> None:
        line = f"{trio.current_time():.9f} {self.step_count} {what}"
        self._digest.update(line.encode())
        self.trace.append(line)

    def client_env(self, name: str = "client") -> Env:
        """What a client on host ``name`` is given."""
        return Env(clock=self._clock(name), rng=self._node_rng(name), network=self.network.host(name))

    def node_env(self, name: str) -> NodeEnv:
        """What a node on host ``name`` is given; its disk outlives it, its mount does not outlive a crash."""
        disk = self.disks.setdefault(name, Disk())
        rng = self._node_rng(name)
        files = MemoryFiles(disk, rng=Random(f"files {name} {rng.random()}"), clock=self._clock(name))
        return NodeEnv(clock=self._clock(name), rng=rng, network=self.network.host(name), files=files)

    def crash(self, name: str) -> None:
        """Kill a node: its disk is fenced first, then its connections break. The caller cancels its tasks."""
        self.log("crash", name)
        if name in self.disks:
            self.disks[name].crash(self.rng)
        self.network.crash_host(name)

    def kill(self, name: str) -> None:
        """Kill a node's process on a machine that lives: its disk keeps what was written. The caller cancels its tasks."""
        self.log("kill", name)
        if name in self.disks:
            self.disks[name].kill()
        self.network.crash_host(name)

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
        return self.clocks.setdefault(name, VirtualClock())

    def _node_rng(self, name: str) -> Random:
        start = self._starts[name] = self._starts.get(name, 0) + 1
        return Random(f"node {self.seed} {name} {start}")


def sim_run(seed: int, main: Callable[[World], Awaitable[T]]) -> T:
    """Run ``main(world)`` in virtual time with a schedule drawn from ``seed``, and return its result."""
    return sim_world(seed, main)[1]


def sim_world(seed: int, main: Callable[[World], Awaitable[T]]) -> tuple[World, T]:
    """The same, and the world after it, for its trace and digest."""
    scheduler_rng = trio_run._r
    state, was_deterministic = scheduler_rng.getstate(), trio_run._ALLOW_DETERMINISTIC_SCHEDULING
    trio_run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]  # trio's own switch for this purpose
    scheduler_rng.seed(seed)
    world = World(seed)
    try:
        return world, trio.run(main, world, clock=MockClock(autojump_threshold=0), instruments=[world])
    finally:
        scheduler_rng.setstate(state)
        trio_run._ALLOW_DETERMINISTIC_SCHEDULING = was_deterministic  # type: ignore[misc]
