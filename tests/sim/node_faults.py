"""Plays the adversary and the operator of one simulated node.

One lets things go wrong, and the other starts the node again. Each node of a cluster has its own.

Decides when each fault of the plan strikes, drawing from a stream for each node. Knows what it did
to the node, and so which ends of it were to be expected: ``failures`` are those that were not.
"""

import errno
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

import trio

from log_service.common.errors import first_error
from tests.sim.network import Weather
from tests.sim.node_audit import Auditor
from tests.sim.node_checker import Violation
from tests.sim.node_history import Died, DiskFault, History
from tests.sim.node_host import Death, NodeHost
from tests.sim.node_plan import Fault, Plan, draw_weather

DISK_BYTES = 1 << 40
START_LIMIT_SECONDS = 120
START_ATTEMPTS = 6
JUMPS_MS = (-3_600_000, -60_000, -1_500, 1_500, 60_000, 3_600_000)
SYNCED_PATHS = (
    "/data/",
    "/data2/",
    "synced-",
    "synced-",
    "cached-",
    "__cluster_metadata-0",
    "__consumer_offsets",
)


class NodeLost(Exception):  # noqa: N818 - it says what is the case
    """The node cannot be started any more."""


@dataclass(slots=True, kw_only=True)
class Victims:
    """The targets of the adversaries of one cluster.

    They are its ``nodes`` by name, and its clients, which come and go.
    """

    nodes: list[str]
    machine_of: Callable[[str], str]
    client_scopes: dict[str, trio.CancelScope] = field(default_factory=dict)

    def machines(self) -> list[str]:
        """Return the machines of the clients that may die."""
        return [self.machine_of(name) for name in sorted(self.client_scopes)]


class Adversary:
    """Does what the plan allows, and keeps the node running in between."""

    def __init__(
        self, plan: Plan, host: NodeHost, auditor: Auditor, history: History, victims: "Victims"
    ) -> None:
        self.world = host.world
        self.plan = plan
        self.host = host
        self.victims = victims
        self.auditor = auditor
        self.history = history
        self.counts: Counter[str] = Counter()
        self.failures: list[Violation] = []
        self.rng: Random = self.world.stream(f"faults {host.name}")
        self.is_striking = self.is_over = False
        self._is_disk_at_fault = False
        self._acts: dict[Fault, Callable[[], Awaitable[None]]] = {
            Fault.DIE: self._die,
            Fault.DIE_AT_OPERATION: self._die_at_operation,
            Fault.DIE_WHILE_STARTING: self._die_while_starting,
            Fault.STOP: self._stop,
            Fault.DIE_WHILE_STOPPING: self._die_while_stopping,
            Fault.RESET: self._reset,
            Fault.CUT: self._cut,
            Fault.ONE_WAY_CUT: self._cut_one_way,
            Fault.SLOW_LINK: self._slow_link,
            Fault.SPLIT: self._split,
            Fault.WEATHER: self._change_weather,
            Fault.CLIENT_DIES: self._kill_client,
            Fault.FULL_DISK: self._fill_disk,
            Fault.FAILED_SYNC: self._fail_sync,
            Fault.CLOCK_JUMP: self._jump_clock,
            Fault.SLOW_DISK: self._slow_disk,
        }
        auditor_noted = host.on_death

        def on_death(death: Death) -> None:
            auditor_noted(death)
            self.counts[death.value] += 1
            history.add(Died(death=death, node=host.name))

        host.on_death = on_death

    async def strike(self, seconds: float) -> None:
        """Let things go wrong for so long."""
        end = trio.current_time() + seconds
        while trio.current_time() < end:
            await self._pause(self.rng.expovariate(1 / self.plan.pause_seconds))
            fault = self.rng.choice(self.plan.faults)
            if not self._may_strike(fault):
                continue
            self.world.log("fault", self.host.name, fault.value)
            self.counts[fault.value] += 1
            self.is_striking = True
            await self._acts[fault]()
            await self.keep_running()
            self.is_striking = False
        self.host.forget_countdown()  # a death that waits for its operation would come when nothing starts the node again
        await self.keep_running()
        self.is_over = True

    def _may_strike(self, _fault: Fault) -> bool:
        """Whether what is promised holds through a fault just now."""
        return True

    async def calm(self) -> None:
        """End every fault, and have the node run."""
        self.host.forget_countdown()
        self.world.network.heal(self.host.name)
        self.world.network.weather = draw_weather(Random(0))
        self.host.disk.space_bytes, self.host.disk.failed = DISK_BYTES, None
        if self._is_disk_at_fault or not self.host.is_running:
            await self._restart_after_power_loss()
        await self.keep_running()
        incarnation = self.host.current
        assert incarnation is not None
        incarnation.files.sync_seconds = incarnation.files.pool_seconds = (0.0, 0.001)

    async def start_promptly(self) -> None:
        """Start the node; nothing has happened to it."""
        await self.keep_running()

    async def keep_running(self) -> None:
        """Start the node if it does not run; a start may die too.

        Raises:
            NodeLost: it ends at every start, though nothing is done to it any more.
        """
        for attempt in range(START_ATTEMPTS):
            if self.host.is_running:
                return
            await self._wait_ended()
            self._judge_end()
            await trio.sleep(self.rng.choice([0, 0.05, 1, 7]))
            if self._is_disk_at_fault:
                self.host.disk.space_bytes = DISK_BYTES
                self.host.lose_power_while_down()
                self._is_disk_at_fault = False
            if attempt > 1:
                self.host.forget_countdown()
            await self._start()
        if not self.host.is_running:
            self._judge_end()
            raise NodeLost

    async def _start(self) -> None:
        with trio.move_on_after(START_LIMIT_SECONDS) as waiting:
            incarnation = await self.host.start()
            incarnation.files.sync_seconds = (0.0, self.plan.sync_seconds)
            incarnation.files.pool_seconds = (0.0, self.plan.pool_seconds)
        if waiting.cancelled_caught:
            self.failures.append(
                Violation("recovery terminates", f"no start within {START_LIMIT_SECONDS} s")
            )
            self.host.die(Death.POWER)

    def _judge_end(self) -> None:
        """A node that ends by itself needs a reason."""
        incarnation = self.host.current
        if incarnation is not None and incarnation.error is not None and not self._is_disk_at_fault:
            self.failures.append(
                Violation(
                    "stays up",
                    f"incarnation {incarnation.number} ended by itself: {first_error(incarnation.error)!r}",
                )
            )
            incarnation.error = None

    async def _pause(self, seconds: float) -> None:
        """Wait, but not while the node is down."""
        incarnation = self.host.current
        assert incarnation is not None
        with trio.move_on_after(seconds):
            await incarnation.ended.wait()
        await self.keep_running()

    async def _wait_ended(self) -> None:
        if self.host.current is not None:
            await self.host.current.ended.wait()

    # What may go wrong

    async def _die(self) -> None:
        self.host.die(self._draw_death())
        await self._wait_ended()

    async def _die_at_operation(self) -> None:
        self.host.die_before_operation(
            self.rng.choice([1, 2, 3, 5, 10, 30, 100]), self._draw_death()
        )
        await self._pause(self.rng.uniform(0.1, 5))

    async def _die_while_starting(self) -> None:
        await self._die()
        self.host.die_before_operation(self.rng.randint(1, 60), self._draw_death())

    async def _stop(self) -> None:
        await self.host.stop()
        self.auditor.forget_death()

    async def _die_while_stopping(self) -> None:
        self.host.die_before_operation(self.rng.randint(1, 25), self._draw_death())
        await self.host.stop()
        if self.host.current is not None and self.host.current.death is None:
            self.auditor.forget_death()
        self.host.forget_countdown()

    async def _reset(self) -> None:
        self.world.network.reset_connections(
            self.rng.choice([self.host.name, *self.victims.machines()])
        )

    async def _cut(self) -> None:
        """Hold back what a client and the node say to each other, for less time than either waits."""
        self.world.network.isolate(self.host.name, [self.rng.choice(self.victims.machines())])
        await self._pause_and_heal(self.rng.uniform(0.1, 2))

    async def _cut_one_way(self) -> None:
        """The same in one direction: requests arrive and responses do not, or the other way round."""
        self.world.network.cut(*self._draw_route())
        await self._pause_and_heal(self.rng.uniform(0.1, 2))

    async def _slow_link(self) -> None:
        """Have one direction of one link be slow, and the rest as it is."""
        seconds = self.rng.choice([0.2, 1.0])
        self.world.network.slow(
            *self._draw_route(), Weather(min_latency=seconds / 2, max_latency=seconds)
        )
        await self._pause_and_heal(self.rng.uniform(0.5, 5))

    async def _split(self) -> None:
        """Cut the node off from others of its cluster, both ways or one way.

        It takes longer than sessions and elections.
        """
        peers = [name for name in self.victims.nodes if name != self.host.name]
        is_deaf, is_mute = self.rng.choice([(True, True), (True, False), (False, True)])
        for peer in self.rng.sample(peers, self.rng.randint(1, len(peers))):
            if is_deaf:
                self.world.network.cut(peer, self.host.name)
            if is_mute:
                self.world.network.cut(self.host.name, peer)
        await self._pause_and_heal(self.rng.uniform(1, 20))

    async def _pause_and_heal(self, seconds: float) -> None:
        await self._pause(seconds)
        self.world.network.heal(self.host.name)

    def _draw_route(self) -> tuple[str, str]:
        """A direction between the node and another machine of its cluster."""
        ends = [self.host.name, self.rng.choice(self.victims.machines())]
        self.rng.shuffle(ends)
        return ends[0], ends[1]

    async def _change_weather(self) -> None:
        self.world.network.weather = draw_weather(self.rng)

    async def _kill_client(self) -> None:
        name = self.rng.choice(sorted(self.victims.client_scopes))
        self.victims.client_scopes[name].cancel()
        self.world.network.reset_connections(self.victims.machine_of(name))

    async def _fill_disk(self) -> None:
        self._begin_disk_fault()
        self.host.disk.space_bytes = self.rng.choice([0, 100, 3_000, 20_000])
        await self._pause_at_fault(self.rng.uniform(0.5, 5))
        self.host.disk.space_bytes = DISK_BYTES
        if self.host.is_running:
            self._is_disk_at_fault = False

    async def _fail_sync(self) -> None:
        """A sync fails: final. The operator starts the node again, with or without cutting the
        power first.
        """
        incarnation = self.host.current
        assert incarnation is not None
        self._begin_disk_fault()
        incarnation.files.fail_next(
            "sync", error=errno.EIO, containing=self.rng.choice(SYNCED_PATHS)
        )
        await self._pause_at_fault(self.rng.uniform(1, 5))
        if self._draw_death() is Death.POWER:
            await self._restart_after_power_loss()
        else:
            await self._restart_after_kill()

    def _begin_disk_fault(self) -> None:
        self._is_disk_at_fault = True
        self.history.add(DiskFault())

    async def _pause_at_fault(self, seconds: float) -> None:
        incarnation = self.host.current
        assert incarnation is not None
        with trio.move_on_after(seconds):
            await incarnation.ended.wait()

    async def _restart_after_power_loss(self) -> None:
        if self.host.is_running:
            self.host.die(Death.POWER)
            self._is_disk_at_fault = False
        await self.keep_running()

    async def _restart_after_kill(self) -> None:
        self.host.die(Death.KILL)
        await self._wait_ended()
        self._excuse_end()
        await self.keep_running()

    def _excuse_end(self) -> None:
        """The node has ended over its disk, which is at fault no more."""
        incarnation = self.host.current
        assert incarnation is not None
        incarnation.error, self._is_disk_at_fault = None, False

    async def _jump_clock(self) -> None:
        self.world.clocks[self.host.name].skew_ms += self.rng.choice(JUMPS_MS)

    async def _slow_disk(self) -> None:
        incarnation = self.host.current
        assert incarnation is not None
        incarnation.files.sync_seconds = (0.0, self.rng.choice([0.0, 0.05, 1.0]))
        incarnation.files.pool_seconds = (0.0, self.rng.choice([0.0, 0.05, 0.5]))

    def _draw_death(self) -> Death:
        return self.rng.choice(self.plan.deaths)
