"""Plays transactional clients of a simulated cluster.

They are copiers, writers, readers of committed records, and clients that take another one's place.

A copier consumes, transforms and produces: each record of the input becomes a row, in the
transaction that commits the group's offsets. A writer writes rows without input, in transactions
that may take too long. A usurper takes the transactional id of a copier that goes on, as an
operator does who believes that it is dead. Clients know neither faults nor rules; what they did and
saw is in ``copy_history``.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import trio

from log_service.client import (
    Admin,
    Consumer,
    NewTopic,
    Producer,
    ProducerFenced,
    TransactionAbortable,
)
from log_service.client.admin.values import OffsetAndMetadata
from log_service.client.consumer.records import ConsumerRecord
from log_service.common.env import Env
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from tests.sim.cluster_clients import ClusterClients
from tests.sim.cluster_plan import ClusterPlan
from tests.sim.copy_history import (
    AskedToCommit,
    CommittedPoll,
    FinalInput,
    FinalRows,
    Initialized,
    Outcome,
    Owned,
    Resumed,
    StableOffset,
    Transact,
    copied_value,
)
from tests.sim.node_clients import by_partition
from tests.sim.node_history import History

COPY_GROUP, ROWS = "copy", "rows"
ROW_PARTITIONS = 3
LOOK_SECONDS = 0.5
HEALING_SECONDS = 5.0


class CopyClients:
    """The transactional cast of one run, beside its other clients."""

    def __init__(self, clients: ClusterClients, plan: ClusterPlan) -> None:
        self._clients = clients
        self.plan = plan
        self.history: History = clients.history
        self.rows = [TopicPartition(ROWS, number) for number in range(ROW_PARTITIONS)]
        self.input = [where for where in clients.partitions if where.topic == plan.topics[0].name]
        self._lives: dict[str, int] = {}
        self._split_at = -HEALING_SECONDS

    @property
    def is_drained(self) -> bool:
        return self._clients.is_drained

    @property
    def is_over(self) -> bool:
        return self._clients.is_over

    @property
    def is_split(self) -> bool:
        """Return whether nodes are, or were a moment ago, cut off or stopped.

        A coordinator may not have heard of its successor.
        """
        world, names = self._clients.world, [node.name for node in self.plan.nodes]
        is_cut = any(
            world.network.is_cut(source, target)
            for source in names
            for target in names
            if source != target
        )
        if is_cut or any(world.pauses.is_paused(name) for name in names):
            self._split_at = trio.current_time()
        return trio.current_time() - self._split_at < HEALING_SECONDS

    # Transactions

    async def copy(self, name: str) -> None:
        """Copy until everything was copied; whatever ends one life of the copier, the next goes on."""
        while not self.is_drained:
            await self.live_as_copier(name, name.partition(".")[0])
            await trio.sleep(0.2)

    async def live_as_copier(self, name: str, transactional_id: str) -> None:
        """Be one life of a copier, until it fails or all is done."""
        env, life = self._clients.env(name), self._next_life(name)
        with suppress(KafkaError):
            async with (
                self._producer(env, transactional_id) as producer,
                self._member(env) as consumer,
            ):
                copier = _Copier(
                    self, env, producer, consumer, life=life, transactional_id=transactional_id
                )
                await copier.run()

    async def write(self, name: str) -> None:
        """Write rows in transactions of a writer's own until it is over."""
        while not self._clients.is_over:
            env, life = self._clients.env(name), self._next_life(name)
            with suppress(KafkaError):
                async with self._producer(env, name.partition(".")[0]) as producer:
                    await _Writer(
                        self, env, producer, life=life, transactional_id=name.partition(".")[0]
                    ).run()
            await trio.sleep(0.2)

    async def usurp(self, name: str) -> None:
        """Take the place of a copier that goes on, for a while, again and again.

        Sometimes no node hears the copier meanwhile.
        """
        rng, number = self._clients.env(name).rng, 0
        while not self._clients.is_over:
            await trio.sleep(rng.uniform(0.5, 3))
            number += 1
            victim = f"copier-{rng.randrange(self.plan.copier_count)}"
            network, machine = self._clients.world.network, self._clients.machine_of(victim)
            if rng.random() < 0.5:
                network.isolate(machine, [node.name for node in self.plan.nodes])
            with trio.move_on_after(rng.uniform(1, 4)):
                await self.live_as_copier(f"{name}.{number}", victim)
            network.heal(machine)

    def _next_life(self, name: str) -> str:
        self._lives[name] = self._lives.get(name, 0) + 1
        return f"{name}.{self._lives[name]}"

    def _producer(self, env: Env, transactional_id: str) -> Producer:
        rng = env.rng
        return Producer(
            self._clients.bootstrap,
            env=env,
            transactional_id=transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            delivery_timeout_ms=12_000,
            max_block_ms=12_000,
            linger_ms=rng.choice([0, 5, 50]),
            batch_size=rng.choice([0, 300, 1_500]),
            max_in_flight_requests_per_connection=rng.choice([1, 5]),
            **self._clients.settings(env),
        )

    @property
    def timeout_ms(self) -> int:
        return int(self.plan.transaction_timeout_seconds * 1_000)

    def _member(self, env: Env) -> Consumer:
        return self._clients._consumer(
            env,
            partition_assignment_strategy=self.plan.assignors,
            session_timeout_ms=2_000,
            heartbeat_interval_ms=400,
            group_id=COPY_GROUP,
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=env.rng.choice([10, 40]),
        )

    async def maybe_hang(self, life: str, rng: Random) -> None:
        """Have a client hang for longer than its session.

        No node hears it, and it goes on as if nothing had been.
        """
        if rng.random() < self.plan.hang_fraction and not self.is_over:
            network, machine = self._clients.world.network, self._clients.machine_of(life)
            network.isolate(machine, [node.name for node in self.plan.nodes])
            try:
                await trio.sleep(rng.uniform(3, 7))
            finally:
                network.heal(machine)

    # Reading

    async def read(self, name: str) -> None:
        """Read the rows of committed transactions, from the beginning, and again from anywhere."""
        env = self._clients.env(name)
        fresh = set(self.rows)
        async with self._clients._consumer(env, isolation_level="read_committed") as consumer:
            consumer.assign(self.rows)
            while not self.is_drained:
                try:
                    records = await consumer.poll(timeout_ms=500)
                    for where, seen in by_partition(records).items():
                        is_fresh = where in fresh
                        fresh.discard(where)
                        self.history.add(
                            CommittedPoll(
                                consumer=name, partition=where, records=seen, is_fresh=is_fresh
                            )
                        )
                    if records and env.rng.random() < 0.2:
                        where = env.rng.choice(records).topic_partition
                        await consumer.seek(
                            where, env.rng.randint(0, await consumer.position(where))
                        )
                        fresh.add(where)
                except KafkaError as error:
                    self._clients.world.log(name, "poll", error)
                await trio.sleep(0.05)

    async def watch(self, name: str) -> None:
        """Ask again and again what the copiers have committed for certain."""
        env = self._clients.env(name)
        async with Admin(self._clients.bootstrap, env=env, **self._clients.settings(env)) as admin:
            while not self.is_drained:
                await self._ask(admin)
                await trio.sleep(env.rng.uniform(0.3, 2))

    async def _ask(self, admin: Admin) -> dict[TopicPartition, int]:
        is_split = self.is_split
        told = [
            self.history.add(StableOffset(partition=partition, is_split=is_split))
            for partition in self.input
        ]
        try:
            offsets = await admin.list_group_offsets(
                COPY_GROUP, self.input, is_stable_required=True, timeout_ms=8_000
            )
        except KafkaError as error:
            for each in told:
                self.history.end(each, error)
            return {}
        for each in told:
            each.offset = offsets[each.partition].offset if each.partition in offsets else -1
            self.history.end(each)
        return {each.partition: each.offset for each in told}

    # Beginning and end

    async def create_topic(self) -> None:
        """Create the topic of the rows."""
        topic = NewTopic(
            name=ROWS,
            partition_count=ROW_PARTITIONS,
            replication_factor=3,
            configs={"min.insync.replicas": "2"},
        )
        env = self._clients.env("admin")
        async with Admin(self._clients.bootstrap, env=env, **self._clients.settings(env)) as admin:
            await admin.create_topics([topic])

    async def what_is_missing(self) -> str | None:
        """Say what keeps the copying from being complete; None where it is."""
        env = self._clients.env("drainer")
        async with Admin(self._clients.bootstrap, env=env, **self._clients.settings(env)) as admin:
            found = await admin.describe_offsets([ROWS, self.input[0].topic])
            for where, offsets in sorted(found.items()):
                if offsets.last_stable_offset != offsets.high_watermark:
                    return f"{where} is stable up to {offsets.last_stable_offset} of {offsets.high_watermark}"
            committed = await self._ask(admin)
            behind = [
                where
                for where in self.input
                if max(0, committed.get(where, -1)) != found[where].high_watermark
            ]
            return f"{COPY_GROUP} is behind in {behind}: {committed}" if behind else None

    async def read_to_the_end(self) -> None:
        """Read what is there at last."""
        env = self._clients.env("ends")
        async with Admin(self._clients.bootstrap, env=env, **self._clients.settings(env)) as admin:
            ends = await admin.describe_offsets([ROWS, self.input[0].topic])
        for where in self.input:
            self.history.add(FinalInput(partition=where, end=ends[where].high_watermark))
        env = self._clients.env("final")
        settings: dict[str, Any] = {
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            **self._clients.settings(env),
        }
        async with Consumer(self._clients.bootstrap, env=env, **settings) as consumer:
            consumer.assign(self.rows)
            records: list[ConsumerRecord] = []
            while any(
                [
                    await consumer.position(where) < ends[where].last_stable_offset
                    for where in self.rows
                ]
            ):
                records += await consumer.poll(timeout_ms=1_000)
        seen = by_partition(records)
        for where in self.rows:
            self.history.add(FinalRows(partition=where, records=seen.get(where, [])))


class _Transactional:
    """A client with transactions, one after the other."""

    def __init__(
        self, cast: CopyClients, env: Env, producer: Producer, *, life: str, transactional_id: str
    ) -> None:
        self.cast = cast
        self.history = cast.history
        self.rng: Random = env.rng
        self.producer = producer
        self.life = life
        self.transactional_id = transactional_id
        self._number = 0

    async def initialize(self) -> None:
        """Take the id; earlier lives are fenced from then on."""
        taken = self.history.add(
            Initialized(producer=self.life, transactional_id=self.transactional_id)
        )
        try:
            await self.producer.init_transactions()
        except KafkaError as error:
            self.history.end(taken, error)
            raise
        self.history.end(taken)

    async def transact(self, work: Callable[[Transact], Awaitable[bool]]) -> bool:
        """Do some work in a transaction; ``work`` says whether it is to be committed. Says whether
        it is committed.

        Raises:
            KafkaError: the producer can do nothing more, or does not know how it ended.
        """
        self._number += 1
        transact = Transact(
            producer=self.life,
            transactional_id=self.transactional_id,
            number=self._number,
            timeout_seconds=self.cast.timeout_ms / 1_000,
        )
        self.history.add(transact)
        try:
            await self.producer.begin_transaction()
            if await work(transact):
                self.history.add(AskedToCommit(transact=transact))
                await self._commit()
                transact.outcome = Outcome.COMMITTED
            else:
                await self.producer.abort_transaction()
                transact.outcome = Outcome.ABORTED
        except TransactionAbortable as error:
            transact.outcome = Outcome.ABORTED  # it cannot be committed any more, whoever ends it
            self.history.end(transact, error)
            await self.producer.abort_transaction()
            return False
        except KafkaError as error:
            transact.outcome = Outcome.UNKNOWN
            transact.is_fenced = isinstance(error, ProducerFenced)
            self.history.end(transact, error)
            raise
        self.history.end(transact)
        return transact.outcome is Outcome.COMMITTED

    async def _commit(self) -> None:
        """Commit; where the end of that is not known, ask once more."""
        try:
            await self.producer.commit_transaction()
        except KafkaError as error:
            if not error.is_retriable:
                raise
            await self.producer.commit_transaction()

    async def send(self, transact: Transact, value: str, partition: TopicPartition) -> None:
        """Send one row."""
        transact.rows[value] = partition

        def settled(metadata: object, _error: KafkaError | None) -> None:
            offset = getattr(metadata, "offset", -1)
            if offset >= 0:
                transact.offsets[value] = offset

        await self.producer.send(
            partition.topic, value.encode(), partition=partition.partition, on_delivery=settled
        )


class _Copier(_Transactional):
    """One life of a copier."""

    def __init__(
        self,
        cast: CopyClients,
        env: Env,
        producer: Producer,
        consumer: Consumer,
        *,
        life: str,
        transactional_id: str,
    ) -> None:
        super().__init__(cast, env, producer, life=life, transactional_id=transactional_id)
        self._consumer = consumer
        self._fresh: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """Copy until everything was copied."""
        await self.initialize()
        await self._consumer.subscribe([self.cast.input[0].topic], on_assigned=self._note_assigned)
        while not self.cast.is_drained:
            records = await self._consumer.poll(timeout_ms=500)
            if not records:
                continue
            self._note_fresh(records)
            if not await self.transact(
                lambda transact, records=records: self._copy(transact, records)  # type: ignore[misc]
            ):
                self._begin_anew(self._consumer.assignment)
                await self._consumer.seek_to_committed()

    async def _copy(self, transact: Transact, records: list[ConsumerRecord]) -> bool:
        """Write a row for each record; some transactions are not to be committed after all."""
        for record in records:
            where = record.topic_partition
            row = copied_value(transact, where, record.offset)
            await self.send(transact, row, self.cast.rows[record.offset % ROW_PARTITIONS])
            start = transact.read.get(where, (record.offset, 0))[0]
            transact.read[where] = (start, record.offset + 1)
            if self.rng.random() < 0.1:
                await trio.sleep(self.rng.uniform(0, 0.1))
        is_last = self.rng.random() < 0.5
        if is_last:
            await self.producer.flush()
        await self.cast.maybe_hang(self.life, self.rng)
        positions: dict[TopicPartition, OffsetAndMetadata] = self._consumer.consumed()
        await self.producer.send_offsets_to_transaction(positions, self._consumer.group_metadata())
        await self.cast.maybe_hang(self.life, self.rng)
        if self.rng.random() < 0.2:
            await trio.sleep(self.rng.uniform(0, 0.3))
        return self.cast.is_over or self.rng.random() > 0.15

    def _note_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        known, owned = self._consumer.group_metadata(), tuple(self._consumer.assignment)
        self.history.add(
            Owned(
                group=COPY_GROUP,
                member_id=known.member_id,
                generation_id=known.generation_id,
                partitions=owned,
            )
        )
        self._begin_anew(partitions)

    def _begin_anew(self, partitions: Sequence[TopicPartition]) -> None:
        """From here on the consumer asks where its group is."""
        self._fresh.update(dict.fromkeys(partitions, self.history.place))

    def _note_fresh(self, records: list[ConsumerRecord]) -> None:
        for where, seen in by_partition(records).items():
            asked_at = self._fresh.pop(where, None)
            if asked_at is not None:
                self.history.add(
                    Resumed(
                        consumer=self.life,
                        partition=where,
                        offset=seen[0].offset,
                        asked_at=asked_at,
                        is_split=self.cast.is_split,
                    )
                )


class _Writer(_Transactional):
    """One life of a writer."""

    async def run(self) -> None:
        """Write until it is over."""
        await self.initialize()
        while not self.cast.is_over:
            await self.transact(self._write)
            await trio.sleep(self.rng.choice([0, 0.01, 0.3]))

    async def _write(self, transact: Transact) -> bool:
        """Write some rows, at times slowly; now and then take too long."""
        for number in range(self.rng.randint(0, 12)):
            await self.send(transact, f"{transact.name}|{number}", self.rng.choice(self.cast.rows))
            if self.rng.random() < 0.2:
                await trio.sleep(self.rng.uniform(0, 0.2))
        if self.rng.random() < self.cast.plan.late_fraction:
            await trio.sleep(self.cast.timeout_ms / 1_000 * self.rng.uniform(0.5, 1.5))
        return self.rng.random() > 0.3
