"""A machine runs one incarnation of a node after the other.

It starts it, stops it, kills it, and cuts its power, also between two operations of its disk. A
``ClusterHost`` holds the machines of one cluster; a world holds any number of them.

A death goes in this order: the disk is fenced, then the connections break, then the tasks are
cancelled, so that a dead node can neither write nor speak. A machine knows no workload and no
checks; ``on_death`` and ``on_started`` let an auditor look at the disk.

Invariants: at most one incarnation of a node lives; an incarnation that ends by itself is told
apart from one that was killed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

import trio

from log_service.broker.broker import Broker
from log_service.config.server import parse_server_properties
from log_service.config.views import NodeConfig
from tests.sim.disk import Crashed, Disk, TornWrite
from tests.sim.files import MemoryFiles
from tests.sim.pauses import HOST as HOST_OF_TASK
from tests.sim.world import World

HOST = "broker"
PORT = 9092
BOOTSTRAP = f"{HOST}:{PORT}"
DATA_DIRECTORIES = (Path("/data"), Path("/data2"))
"""Where logs may be; the second only for nodes that are configured with it."""

NODE_ID = 1
PROPERTIES = {
    "node.id": str(NODE_ID),
    "log.dirs": str(DATA_DIRECTORIES[0]),
    "cluster.id": "cluster-in-virtual-time",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
}
CHANGING = frozenset(
    {
        "append",
        "write",
        "sync",
        "truncate",
        "open",
        "rename",
        "remove",
        "make_directory",
        "sync_directory",
        "sync_file_system",
    }
)
"""Operations of a disk at which a node can die in a way that matters."""


class Death(Enum):
    """How a node dies. A kill keeps what was written; without power what was not synced is lost or
    torn.
    """

    KILL = "kill"
    POWER = "power"


@dataclass(slots=True, eq=False)
class Incarnation:
    """One start of a node and what became of it."""

    number: int
    broker: Broker
    files: MemoryFiles
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    is_up: bool = False
    death: Death | None = None
    error: BaseException | None = None
    changed: trio.Event = field(default_factory=trio.Event)
    ended: trio.Event = field(default_factory=trio.Event)

    def started(self, _value: Broker | None = None) -> None:
        """Be the ``task_status`` of the broker."""
        self.is_up = True
        self.changed.set()

    @property
    def is_running(self) -> bool:
        return not self.ended.is_set() and self.death is None


class NodeHost:
    """The machine ``name``; ``nursery`` holds the node's tasks. ``config`` and ``texts`` are those
    of every start.
    """

    def __init__(
        self,
        world: World,
        nursery: trio.Nursery,
        config: NodeConfig,
        texts: Mapping[str, str],
        *,
        name: str = HOST,
        disk: Disk | None = None,
    ) -> None:
        self.world = world
        self.name = name
        self.config = config
        self.texts = texts
        self.incarnations: list[Incarnation] = []
        self.on_death: Callable[[Death], None] = lambda _death: None
        """Called when a node dies, before its disk loses anything."""
        self.settle_death: Callable[[Death], Death] = lambda death: death
        """Says how a node dies that was to die in some way at an operation of its disk, when it
        comes to that operation.
        """
        self.began_to_lead = trio.Event()
        """Set, and replaced, when the node is seen to lead a partition in another epoch than
        before.
        """
        self.on_started: Callable[[Incarnation], None] = lambda _incarnation: None
        self.operations: list[str] = []
        """What changed the disk, in order."""
        self._nursery = nursery
        self._countdown: tuple[int, Death, float] | None = None
        if disk is not None:
            world.disks[name] = disk

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def has_partitions(self) -> bool:
        """Whether the node is a broker."""
        return bool(self.config.listeners)

    @property
    def port(self) -> int:
        return self.config.listeners[0].port

    @property
    def address(self) -> str:
        return f"{self.name}:{self.port}"

    @property
    def current(self) -> Incarnation | None:
        return self.incarnations[-1] if self.incarnations else None

    @property
    def is_running(self) -> bool:
        return self.current is not None and self.current.is_running

    @property
    def disk(self) -> Disk:
        return self.world.disks[self.name]

    async def start(self) -> Incarnation:
        """Begin an incarnation and wait until it serves or is over."""
        assert not self.is_running, "one incarnation at a time"
        if self.current is not None:
            await self.current.ended.wait()
        env = self.world.node_env(self.name)
        assert isinstance(env.files, MemoryFiles)
        broker = Broker(env, self.config, static_texts=self.texts)
        incarnation = Incarnation(number=len(self.incarnations) + 1, broker=broker, files=env.files)
        self.incarnations.append(incarnation)
        env.files.on_operation = self._on_operation
        self.world.log("start", self.name, incarnation.number)
        self._nursery.start_soon(self._live, incarnation)
        await incarnation.changed.wait()
        if incarnation.is_up:
            self.world.log("up", self.name, incarnation.number)
            self.on_started(incarnation)
        return incarnation

    async def stop(self) -> None:
        """Stop gracefully; returns when the node is over, however that came about."""
        incarnation = self.current
        if incarnation is not None and incarnation.is_running:
            self.world.log("stop", self.name, incarnation.number)
            await incarnation.broker.stop()
            await incarnation.ended.wait()
            self.world.log("stopped", self.name, incarnation.number)

    def die(self, death: Death) -> None:
        """Kill the running node now."""
        incarnation = self.current
        if incarnation is None or not incarnation.is_running:
            return
        incarnation.death = death
        self.on_death(death)
        self._countdown = None
        if death is Death.KILL:
            self.world.kill(self.name)
        else:
            self.world.crash(self.name)
        incarnation.scope.cancel()

    def note_leading(self) -> None:
        """Wake who waits for the node to lead."""
        self.began_to_lead.set()
        self.began_to_lead = trio.Event()

    def lose_power_while_down(self) -> None:
        """The machine loses power while no node runs on it."""
        assert not self.is_running
        self.on_death(Death.POWER)
        self.world.crash(self.name)

    def die_before_operation(self, count: int, death: Death, *, torn_fraction: float = 0.0) -> None:
        """Let the node die before the disk's next ``count``-th change takes effect, whatever it is
        doing then.

        Of a write that is torn, so much is there.
        """
        self._countdown = (count, death, torn_fraction)

    def forget_countdown(self) -> None:
        self._countdown = None

    def _on_operation(self, operation: str, path: Path) -> None:
        if operation not in CHANGING:
            return
        self.operations.append(f"{operation} {path}")
        if self._countdown is None:
            return
        count, death, torn_fraction = self._countdown
        self._countdown = (count - 1, death, torn_fraction)
        if count <= 1:
            self.die(self.settle_death(death))
            raise TornWrite(torn_fraction) if torn_fraction else Crashed

    async def _live(self, incarnation: Incarnation) -> None:
        HOST_OF_TASK.set(self.name)
        try:
            with incarnation.scope:
                await incarnation.broker.run(task_status=incarnation)
        except* Crashed:
            assert incarnation.death is not None, "only a death fences a disk"
        except* Exception as group:  # noqa: BLE001 - whatever ends a node is for the checker to judge
            if incarnation.death is None:
                incarnation.error = group
                self.world.log(
                    "failed",
                    self.name,
                    incarnation.number,
                    type(group.exceptions[0]).__name__,
                    str(group.exceptions[0]),
                )
        finally:
            incarnation.ended.set()
            incarnation.changed.set()


class ClusterHost:
    """The machines of the nodes of one cluster."""

    def __init__(self, nodes: Sequence[NodeHost]) -> None:
        self.nodes = tuple(nodes)

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.nodes if node.has_partitions)

    @property
    def running(self) -> list[NodeHost]:
        return [node for node in self.nodes if node.is_running]

    async def stop(self) -> None:
        """Stop all nodes in order, at once; returns when all are over."""
        async with trio.open_nursery() as nursery:
            for node in self.nodes:
                nursery.start_soon(node.stop)


def node_config(
    properties: Mapping[str, str], *, name: str = HOST, **log_changes: object
) -> tuple[NodeConfig, dict[str, str]]:
    """Return the configuration of the node on the machine ``name``: ``properties`` over
    ``PROPERTIES``.

    ``log_changes`` are fields of ``LogConfig`` below what keys allow.
    """
    config, settings = parse_server_properties(
        {**PROPERTIES, "listeners": f"PLAINTEXT://{name}:{PORT}", **properties}
    )
    log = replace(config.log, **log_changes)  # type: ignore[arg-type]  # fields of different types
    return replace(config, log=log, disk_pool_threads=1), dict(settings.texts)
