"""Plays the workers of a queue in a simulated cluster.

They are members of one share group, and note the fate of each record that they got.

A worker accepts most records, releases and rejects some, and says nothing of others until their
locks run out. Now and then it hangs, so that others get its records. Workers know neither faults
nor rules. ``Delivered`` and ``Acknowledged`` are for ``queue_checker`` to judge.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any
from unittest import mock

import trio

from log_service.client import Admin, ConfigResource, ItemsFailed, ShareConsumer, ShareRecord
from log_service.common.env import Env
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from tests.sim.cluster_clients import ClusterClients
from tests.sim.cluster_plan import ClusterPlan
from tests.sim.node_checker import Violation
from tests.sim.node_clients import TIMEOUTS
from tests.sim.node_history import Entry, History, Operation

QUEUE = "queue"
DELIVERY_LIMIT = 10
LOCK_SECONDS = 1.0
DRAIN_SECONDS = 30.0
"""Within which a calm queue gets on: locks and sessions run out, coordinators load, leaders ask for
what they have forgotten.
"""
LOOK_SECONDS = 0.5


@dataclass(slots=True, kw_only=True)
class Delivered(Entry):
    """A worker was given a record."""

    worker: str
    partition: TopicPartition
    offset: int
    count: int


@dataclass(slots=True, kw_only=True, eq=False)
class Acknowledged(Operation):
    """A worker said what became of a delivery: ``accept``, ``release`` or ``reject``. Ended when a
    leader took or refused it.
    """

    worker: str
    partition: TopicPartition
    offset: int
    count: int
    kind: str


@dataclass(slots=True, kw_only=True)
class LeaderNamed(Entry):
    """A broker named the leader of a partition to a worker, beside an error."""

    worker: str
    partition: TopicPartition
    leader_id: int


class QueueClients:
    """The workers of one run. All of them take from the first topic."""

    def __init__(self, clients: ClusterClients, plan: ClusterPlan) -> None:
        self._clients = clients
        self.plan = plan
        self.history: History = clients.history
        self.topic = plan.topics[0].name

    async def begin_at_the_first_record(self) -> None:
        """Say where the queue begins, and how often and how long it delivers."""
        configs = {
            "share.auto.offset.reset": "earliest",
            "share.delivery.count.limit": str(DELIVERY_LIMIT),
            "share.record.lock.duration.ms": str(int(LOCK_SECONDS * 1_000)),
        }
        async with Admin(
            self._clients.bootstrap, env=self._clients.env("admin"), **TIMEOUTS
        ) as admin:
            await admin.alter_configs({ConfigResource.group(QUEUE): configs})

    async def work(self, name: str) -> None:
        """Work until the queue is empty; whatever ends one life of the worker, the next goes on."""
        number = 0
        while not self._clients.is_drained:
            number += 1
            with suppress(KafkaError):
                await _Worker(self, self._clients.env(name), f"{name}/{number}").run()
            await trio.sleep(0.2)

    @property
    def is_over(self) -> bool:
        return self._clients.is_over

    @property
    def is_drained(self) -> bool:
        return self._clients.is_drained

    @property
    def bootstrap(self) -> str:
        return self._clients.bootstrap

    async def hang(self, worker: str, rng: Random) -> None:
        """Have a worker hang for longer than its locks.

        No node hears it, and it goes on as if nothing had been.
        """
        network, machine = self._clients.world.network, self._clients.machine_of(worker)
        network.isolate(machine, [node.name for node in self.plan.nodes])
        try:
            await trio.sleep(rng.uniform(1, 3) * LOCK_SECONDS)
        finally:
            network.heal(machine)

    async def drain(self) -> Violation | None:
        """Wait until the queue is empty, as long as there is progress."""
        env = self._clients.env("queue-drainer")
        since, known = trio.current_time(), None
        async with Admin(self._clients.bootstrap, env=env, **TIMEOUTS) as admin:
            while trio.current_time() < since + DRAIN_SECONDS:
                try:
                    missing = await self._what_is_missing(admin)
                except KafkaError as error:
                    missing = str(error)
                if missing is None:
                    return None
                if missing != known:
                    since, known = trio.current_time(), missing
                await trio.sleep(LOOK_SECONDS)
        return Violation("a queue gets empty", f"after {DRAIN_SECONDS:.0f} s of calm {known}")

    async def _what_is_missing(self, admin: Admin) -> str | None:
        ends = await admin.describe_offsets([self.topic])
        told = await admin.list_share_group_offsets(QUEUE, [self.topic], timeout_ms=8_000)
        for where, offsets in sorted(ends.items()):
            found = told.get(where)
            if offsets.high_watermark and (found is None or found.lag != 0):
                return f"{where} ends at {offsets.high_watermark}, and its queue is at {found}"
        return None


class _Worker:
    """One life of a worker."""

    def __init__(self, cast: QueueClients, env: Env, name: str) -> None:
        self.cast = cast
        self.history = cast.history
        self.env = env
        self.rng: Random = env.rng
        self.name = name
        self._said: dict[tuple[TopicPartition, int], list[Acknowledged]] = {}

    async def run(self) -> None:
        """Work until all is done."""
        async with ShareConsumer(
            self.cast.bootstrap,
            env=self.env,
            group_id=QUEUE,
            acknowledgement_mode="explicit",
            share_acquire_mode=self.rng.choice(["batch_optimized", "record_limit"]),
            max_poll_records=self.rng.choice([3, 20]),
            on_acknowledged=self._note_settled,
            **TIMEOUTS,
        ) as consumer:
            cluster = consumer.cluster
            learn = partial(self._note_leader, cluster.learn_leader)
            with mock.patch.object(cluster, "learn_leader", learn):
                await self._work(consumer)

    async def _work(self, consumer: ShareConsumer) -> None:
        await consumer.subscribe([self.cast.topic])
        while not self.cast.is_drained:
            records = await consumer.poll(timeout_ms=500)
            for record in records:
                self._note_delivered(record)
            if records and not self.cast.is_over and self.rng.random() < 0.1:
                await self.cast.hang(self.name, self.rng)
            for record in records:
                self._say(consumer, record)
            if self.rng.random() < 0.5:
                with suppress(ItemsFailed):
                    await consumer.commit(timeout_ms=2_000)
            await trio.sleep(self.rng.choice([0, 0.05]))

    def _note_leader(
        self,
        learn: Callable[..., None],
        where: TopicPartition,
        leader: Any,
        endpoints: Iterable[Any] = (),
    ) -> None:
        if leader.leader_id >= 0:
            self.history.add(
                LeaderNamed(worker=self.name, partition=where, leader_id=leader.leader_id)
            )
        learn(where, leader, endpoints)

    def _note_delivered(self, record: ShareRecord) -> None:
        entry = Delivered(
            worker=self.name,
            partition=record.topic_partition,
            offset=record.offset,
            count=record.delivery_count,
        )
        self.history.add(entry)

    def _say(self, consumer: ShareConsumer, record: ShareRecord) -> None:
        kinds = ["accept"] * 8 + (
            [] if self.cast.is_over else ["release"] * 6 + ["reject"] + [""] * 4
        )
        kind = self.rng.choice(kinds)
        if not kind:
            return  # its lock runs out
        with suppress(KafkaError):  # it has run out
            getattr(consumer, kind)(record)
            where, offset = record.topic_partition, record.offset
            said = self.history.add(
                Acknowledged(
                    worker=self.name,
                    partition=where,
                    offset=offset,
                    count=record.delivery_count,
                    kind=kind,
                )
            )
            self._said.setdefault((where, offset), []).append(said)

    def _note_settled(
        self, where: TopicPartition, offsets: Sequence[int], error: KafkaError | None
    ) -> None:
        for offset in offsets:
            said = self._said.get((where, offset))
            if said:
                self.history.end(said.pop(0), error)
