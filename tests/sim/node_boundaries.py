"""Crashes at every single operation of the disk in one short story of a node and its clients.

None is left to chance.

    python -m tests.sim.node_boundaries              every boundary, every kind of death, with figures
    python -m tests.sim.node_boundaries --moving     the same with a story of logs that move between two log directories
    python -m tests.sim.node_boundaries --at 211 --ending torn     one again, with its trace

The story has everything that writes: topics created, given partitions, cut and deleted, records of
an idempotent producer over several segments, commits, retention, snapshots of the metadata, a stop
in order and a start. It is played once to count the operations that change the disk (write, sync,
rename, create, remove, truncate) and then once for each of them and each ``Ending``: the node dies
before that operation takes effect. A second death strikes while it recovers, at an operation that
goes round with the first. Then it has to serve, and the checker judges.
"""

# ruff: noqa: T201 - a command
import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from random import Random

import trio

from log_service.client import Admin, Producer
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from tests.sim.disk import Disk
from tests.sim.network import Weather
from tests.sim.node_audit import Auditor
from tests.sim.node_checker import Violation, check
from tests.sim.node_clients import GROUP, TIMEOUTS, Clients
from tests.sim.node_faults import START_LIMIT_SECONDS
from tests.sim.node_history import (
    Create,
    CreatePartitions,
    Delete,
    DeleteRecords,
    Died,
    History,
    Send,
    TopicPlan,
)
from tests.sim.node_host import BOOTSTRAP, DATA_DIRECTORIES, HOST, Death, NodeHost, node_config
from tests.sim.node_metadata_checker import check_metadata
from tests.sim.node_moves import Mover, check_places, copied_in_steps
from tests.sim.node_plan import NodePlan, Plan, draw_plan
from tests.sim.node_refusals import check_refusals, refusals_noted
from tests.sim.node_runs import described, exceptions_noted
from tests.sim.world import World, sim_world

STORY_SECONDS = 600
ASKED_AGAIN_SECONDS = 20
RECORDS = 12
"""Of each topic and part of the story: several segments."""
SECOND_DEATHS = 37
"""The node dies again before one of so many operations of its recovery."""
PASSING = "passing"


class Ending(Enum):
    """How the node dies at an operation: what of the operation itself and of what was not synced
    stays.
    """

    KILL = "kill"
    TORN = "torn"  # killed in the middle of a write: half of its bytes are there
    NOTHING = "nothing"  # power lost, and with it everything that was not synced
    SOME = "some"  # power lost; what was not synced is there in part
    ANY_ORDER = "any order"  # ... and in any order


class Least(Random):
    """Keeps nothing of what need not be kept."""

    def randint(self, a: int, b: int) -> int:
        return a

    def random(self) -> float:
        return 1.0 - 1e-9


@dataclass(slots=True, kw_only=True)
class Verdict:
    """The outcome of one crash.

    ``operation`` is what the node was about to do.
    """

    at: int
    ending: Ending
    operation: str = ""
    violations: list[Violation]
    virtual_seconds: float = 0.0

    def __str__(self) -> str:
        again = f"python -m tests.sim.node_boundaries --at {self.at} --ending '{self.ending.value}'"
        return "\n  ".join(
            [
                f"{self.ending.value} before operation {self.at} ({self.operation}): {again}",
                *map(str, self.violations[:6]),
            ]
        )


def story_plan() -> Plan:
    """Small segments, everything synced before it is acknowledged, no chance."""
    config, texts = node_config(
        {
            "log.flush.interval.messages": "1",
            "log.retention.check.interval.ms": "1000",
            "log.initial.task.delay.ms": "500",
            "log.flush.offset.checkpoint.interval.ms": "2000",
            "log.cleaner.backoff.ms": "1000",
            "log.segment.delete.delay.ms": "1000",
            "metadata.log.max.record.bytes.between.snapshots": "600",
        },
        segment_bytes=600,
        index_interval_bytes=64,
    )
    topics = (
        TopicPlan(name="synced", partition_count=1, is_synced=True),
        TopicPlan(
            name="cut",
            partition_count=1,
            is_synced=True,
            is_trimmed=True,
            configs={"retention.bytes": "900"},
        ),
    )
    node = NodePlan(name=HOST, config=config, texts=texts)
    return replace(
        draw_plan(0),
        seed=0,
        nodes=(node,),
        topics=topics,
        are_offsets_synced=True,
        weather=Weather(),
    )


class Story:
    """One playing: ``at`` 0 has no death and only counts the operations."""

    def __init__(self, world: World, at: int, ending: Ending) -> None:
        self.world = world
        self.at = at
        self.ending = ending
        self.plan = self.draw_plan()
        self.history = History(trio.current_time)
        self.history.topics = {topic.name: topic for topic in self.plan.topics}
        self.clients = Clients(world, self.plan, self.history, BOOTSTRAP)
        self.violations: list[Violation] = []
        self.operations: list[str] = []
        self.operation = ""
        self.host: NodeHost
        self.death_count = 0

    def draw_plan(self) -> Plan:
        return story_plan()

    async def play(self) -> None:
        """Everything: the story, with its death, and what is left of it."""
        node, disk = self.plan.nodes[0], Disk(is_reordering=self.ending is Ending.ANY_ORDER)
        self.world.network.weather = self.plan.weather
        if self.ending is Ending.NOTHING:
            self.world.crash_rng = Least(0)
        async with trio.open_nursery() as nursery:
            host = self.host = NodeHost(self.world, nursery, node.config, node.texts, disk=disk)
            auditor = Auditor(host)
            self._note_deaths(host)
            with exceptions_noted(self.violations), refusals_noted({HOST: self.history}):
                nursery.start_soon(self._keep_running, host)
                with trio.move_on_after(STORY_SECONDS) as waiting:
                    await self._tell(host)
                if waiting.cancelled_caught:
                    self.violations.append(
                        Violation("liveness", f"the story did not end within {STORY_SECONDS} s")
                    )
            self.violations += auditor.violations
            self.operations = host.operations
            nursery.cancel_scope.cancel()
        self.violations += [
            *check(self.history),
            *check_metadata(self.history),
            *check_refusals(self.history),
        ]

    @property
    def _death(self) -> Death:
        return Death.KILL if self.ending in {Ending.KILL, Ending.TORN} else Death.POWER

    def _note_deaths(self, host: NodeHost) -> None:
        noted = host.on_death

        def on_death(death: Death) -> None:
            self.operation = self.operation or host.operations[-1]
            self.death_count += 1
            noted(death)
            self.history.add(Died(death=death))

        host.on_death = on_death

    async def _keep_running(self, host: NodeHost) -> None:
        """Start the node whenever it is down; the start after the death has one of its own."""
        if self.at:
            host.die_before_operation(
                self.at, self._death, torn_fraction=0.5 if self.ending is Ending.TORN else 0.0
            )
        while True:
            if self.death_count == 1 and not host.is_running:
                host.die_before_operation(1 + self.at % SECOND_DEATHS, self._death)
            if not host.is_running:
                with trio.move_on_after(START_LIMIT_SECONDS) as waiting:
                    incarnation = await host.start()
                    if incarnation.error is not None:
                        self.violations.append(
                            Violation("recovery", f"the node does not start: {incarnation.error!r}")
                        )
                        return
                if waiting.cancelled_caught:
                    self.violations.append(
                        Violation("recovery terminates", f"no start within {START_LIMIT_SECONDS} s")
                    )
                    return
            await trio.sleep(0.05)

    async def _tell(self, host: NodeHost) -> None:
        clients = self.clients
        await clients.create_topics()
        async with self._producer() as producer:
            await self._produce(producer, 0)
            await self._administer()
            await self._consume("early")
            await self._produce(producer, RECORDS)
            await trio.sleep(3)
            await host.stop()
            await self._produce(producer, 2 * RECORDS)
        await self._consume("late")
        await trio.sleep(3)
        await clients.end_trimming()  # power that was lost brings back what retention removed, and it would remove that while it is read
        await clients.read_to_the_end()

    def _producer(self) -> Producer:
        return Producer(
            BOOTSTRAP, env=self.clients.env("producer"), delivery_timeout_ms=120_000, **TIMEOUTS
        )

    async def _produce(self, producer: Producer, first: int) -> None:
        for number in range(first, first + RECORDS):
            for topic in self.plan.topics:
                partition = TopicPartition(topic.name, 0)
                value = f"p:{partition}:{number}"
                send = Send(
                    producer="p",
                    partition=partition,
                    number=number,
                    value=value,
                    timestamp_ms=producer.wall_ms(),
                )
                self.history.add(send)
                try:
                    delivery = await producer.send(
                        topic.name, value=value.encode(), key=b"key", partition=0
                    )
                    metadata = await delivery.wait()
                except KafkaError as error:
                    self.history.end(send, error)
                    self.violations.append(
                        Violation("availability", f"{value} was refused: {error}")
                    )
                else:
                    send.offset = metadata.offset
                    self.history.end(send)

    async def _administer(self) -> None:
        """Create a topic, add a partition, cut and delete.

        An operation without a response may have happened, as the history says.
        """
        clients, cut = self.clients, TopicPartition("cut", 0)
        async with Admin(BOOTSTRAP, env=self.clients.env("admin"), **TIMEOUTS) as admin:
            operations: tuple[Callable[[], Awaitable[None]], ...] = (
                lambda: clients.create(
                    admin, Create(topic=PASSING, partition_count=1, retention_ms="100000000")
                ),
                lambda: clients.note(
                    [CreatePartitions(topic=PASSING, partition_count=2)],
                    lambda: admin.create_partitions({PASSING: 2}),
                ),
                lambda: clients.note(
                    [DeleteRecords(partition=cut, before=6)], lambda: admin.delete_records({cut: 6})
                ),
                lambda: clients.note(
                    [Delete(topic=PASSING)], lambda: admin.delete_topics([PASSING])
                ),
            )
            for operate in operations:
                with suppress(KafkaError):
                    await operate()
                await clients.describe(admin, PASSING)

    async def _consume(self, name: str) -> None:
        """Read everything as a member of the group, and commit it."""
        clients = self.clients
        env = self.clients.env(name)
        async with clients.member(env, group_id=GROUP, enable_auto_commit=False) as consumer:
            await clients.subscribe(consumer, name)
            while True:
                try:
                    await clients.poll(consumer, name, GROUP, env.rng)
                    await clients.commit(consumer)
                    ends = await clients.ends()
                except KafkaError as error:
                    self.world.log(name, error)
                    await trio.sleep(0.2)
                    continue
                if all(
                    clients.group_positions.get(partition, 0) >= end
                    for partition, (_, end) in ends.items()
                ):
                    break
        async with Admin(BOOTSTRAP, env=self.clients.env(f"{name} asks"), **TIMEOUTS) as admin:
            await clients.ask_commits(admin)


class MovingStory(Story):
    """The story of partitions that move from one log directory to the other and back.

    An idempotent producer writes to them meanwhile.
    """

    def draw_plan(self) -> Plan:
        plan = story_plan()
        node = plan.nodes[0]
        directories = replace(node.config.log_manager, log_dirs=DATA_DIRECTORIES)
        return replace(
            plan, nodes=(replace(node, config=replace(node.config, log_manager=directories)),)
        )

    async def _tell(self, host: NodeHost) -> None:
        await self.clients.create_topics()
        async with self._producer() as producer:
            await self._produce(producer, 0)
            for number, path in enumerate(DATA_DIRECTORIES, 1):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._bring, path)
                    await self._produce(producer, number * RECORDS)
            await trio.sleep(3)
            await host.stop()
            await self._produce(producer, 3 * RECORDS)
        await self.clients.end_trimming()
        await self.clients.read_to_the_end()
        self.violations += check_places(host.disk, is_calm=True)

    async def _bring(self, path: Path) -> None:
        """Ask until all are there: what was asked of a node that died may be forgotten."""
        mover = Mover(self.world, self.host, [], self.clients.env)
        while True:
            try:
                with trio.fail_after(ASKED_AGAIN_SECONDS), copied_in_steps(200, 400):
                    await mover.bring(dict.fromkeys(self.clients.partitions, path.as_posix()))
            except (KafkaError, trio.TooSlowError):
                await trio.sleep(0.2)
            else:
                return


def play(
    at: int, ending: Ending = Ending.KILL, kind: type[Story] = Story
) -> tuple[Verdict, Story, World]:
    """Play the story with a death before its ``at``-th operation, or without any."""
    stories: list[Story] = []
    seconds = 0.0

    async def main(world: World) -> None:
        nonlocal seconds
        stories.append(kind(world, at, ending))
        await stories[0].play()
        seconds = trio.current_time()

    world, _ = sim_world(at, main)
    story = stories[0]
    verdict = Verdict(
        at=at,
        ending=ending,
        operation=story.operation,
        violations=story.violations,
        virtual_seconds=seconds,
    )
    return verdict, story, world


def count_operations(kind: type[Story] = Story) -> list[str]:
    """The operations of the story that change the disk, in order, when nothing happens to the node."""
    verdict, story, _ = play(0, kind=kind)
    assert not verdict.violations, verdict
    return story.operations


def boundaries(count: int, *, stride: int = 1) -> list[tuple[int, Ending]]:
    """Return (operation, ending) of every crash.

    With a stride it takes every so many-th operation, each with one ending, in turns.
    """
    endings = list(Ending)
    if stride == 1:
        return [(at, ending) for at in range(1, count + 1) for ending in endings]
    return [
        (at, endings[index % len(endings)]) for index, at in enumerate(range(1, count + 1, stride))
    ]


def judge(boundary: tuple[int, Ending], kind: type[Story] = Story) -> Verdict:
    """Play one crash."""
    try:
        return play(*boundary, kind)[0]
    except Exception as error:  # noqa: BLE001 - a client that raises what it never should is a finding
        return Verdict(
            at=boundary[0],
            ending=boundary[1],
            violations=[Violation("no surprise", described(error))],
        )


# Command


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what the command line names, print figures, and return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(
        description="Let a simulated node die at every operation of its disk."
    )
    parser.add_argument("--stride", type=int, default=1, help="every so many-th operation only")
    parser.add_argument("--at", type=int, help="one operation")
    parser.add_argument(
        "--ending",
        type=Ending,
        default=Ending.KILL,
        help=", ".join(ending.value for ending in Ending),
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--moving",
        action="store_true",
        help="the story in which logs move between two log directories",
    )
    options = parser.parse_args(arguments)
    kind = MovingStory if options.moving else Story
    if options.at:
        verdict, story, world = play(options.at, options.ending, kind)
        print("\n".join([*world.trace, *map(str, story.history.entries)]))
        print(verdict)
        return 1 if verdict.violations else 0
    begun = time.perf_counter()
    operations = count_operations(kind)
    crashes = boundaries(len(operations), stride=options.stride)
    failed = [verdict for verdict in _judge_all(crashes, options.jobs, kind) if verdict.violations]
    for verdict in failed:
        print(verdict, flush=True)
    seconds = time.perf_counter() - begun
    kinds = ", ".join(
        f"{kind} {number}"
        for kind, number in sorted(Counter(name.partition(" ")[0] for name in operations).items())
    )
    print(f"{len(operations)} operations: {kinds}")
    print(
        f"{len(crashes)} crashes in {seconds:.0f} s, each with a second one in its recovery: {len(failed)} broke a promise"
    )
    return 1 if failed else 0


def _judge_all(
    crashes: list[tuple[int, Ending]], jobs: int, kind: type[Story]
) -> Iterator[Verdict]:
    if jobs == 1:
        yield from map(partial(judge, kind=kind), crashes)
    else:
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            yield from pool.imap_unordered(partial(judge, kind=kind), crashes, chunksize=4)


if __name__ == "__main__":
    sys.exit(main())
