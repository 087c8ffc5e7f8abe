"""Runs one flow with its clients, topics, groups and records, until something fails.

This module decides the order of the first steps. First the flow's producer initializes its
transactional id, which fences an earlier producer and ends its transaction. Only then is the
committed progress read, so that no other process can change it afterwards. Any failure ends the
flow. ``service`` then starts it again from the last committed transaction.
"""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import trio

from log_service.client.admin.admin import Admin
from log_service.client.consumer.consumer import Consumer
from log_service.client.producer.producer import Producer
from log_service.common.counts import counted
from log_service.common.env import Env
from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.mirror.complaints import Complaints
from log_service.mirror.group_keeper import GroupKeeper
from log_service.mirror.held_topics import HeldTopics
from log_service.mirror.offsets_topic import create_offsets_topic, read_progress
from log_service.mirror.settings import ClusterSettings, FlowSettings
from log_service.mirror.topic_keeper import TopicKeeper
from log_service.mirror.transfer import FlowClients, Transfer

CLIENT_ID = "tidelog-mirror"
MAX_REQUEST_BYTES = 64 << 20
"""Limit of the mirror's own producer. It is high, because the target's topics set their own limits.
"""
BATCH_BYTES = 256 << 10
FETCH_BYTES = 8 << 20
FEW_RECORDS = 1_000
"""After fewer records, the next transaction waits for the commit interval to collect more."""

Say = Callable[[str], None]


class Flow:
    """One attempt to run ``flow``, until it fails. ``flows`` are all enabled flows.

    ``say`` is called with a line for a person when the mirrored topics change. ``beat`` is called
    while the flow makes progress.
    """

    def __init__(
        self,
        flows: Sequence[FlowSettings],
        flow: FlowSettings,
        env: Env,
        *,
        complaints: Complaints,
        held: HeldTopics,
        say: Say,
        beat: Callable[[], None],
    ) -> None:
        self._flows = flows
        self._flow = flow
        self._env = env
        self._complaints = complaints
        self._held = held
        self._say = say
        self._beat = beat

    async def run(self) -> None:
        """Mirror until something fails.

        Raises:
            KafkaError: a cluster cannot be reached, or refuses a request, or another process has
                taken over the flow.
            ConfigError: source and target are the same cluster.
        """
        async with AsyncExitStack() as stack:
            source = await stack.enter_async_context(admin_of(self._flow.source, self._env))
            target = await stack.enter_async_context(admin_of(self._flow.target, self._env))
            await self._require_two_clusters(source, target)
            self._beat()
            await create_offsets_topic(
                target, self._flow.offsets_topic, self._flow.replication_factor
            )
            producer = await stack.enter_async_context(self._producer())
            await producer.init_transactions()
            self._beat()
            progress = await read_progress(
                target, self._flow.offsets_topic, is_every_transaction_ended=True
            )
            keeper = TopicKeeper(self._flows, self._flow, source, target, self._complaints)
            await keeper.refresh()
            consumer = await stack.enter_async_context(self._consumer())
            clients = FlowClients(
                source=source, target=target, consumer=consumer, producer=producer
            )
            transfer = Transfer(
                self._flow,
                clients,
                progress,
                complaints=self._complaints,
                held=self._held,
                doubt=keeper.doubt,
            )
            groups = GroupKeeper(
                self._flow, source, target, lambda: transfer.progress, self._complaints
            )
            nursery = await stack.enter_async_context(trio.open_nursery())
            nursery.start_soon(keeper.run)
            if self._flow.is_syncing_groups:
                nursery.start_soon(groups.run)
            await self._mirror(keeper, transfer)

    async def _mirror(self, keeper: TopicKeeper, transfer: Transfer) -> None:
        is_reported = False
        while True:
            self._beat()
            if await transfer.follow(keeper.topics) or not is_reported:
                self._say(
                    f"{self._flow.name}: mirrors {counted(transfer.topic_count, 'topic')},"
                    f" {counted(transfer.partition_count, 'partition')}"
                )
                is_reported = True
            began = trio.current_time()
            if 0 < await transfer.step() < FEW_RECORDS:
                await trio.sleep_until(began + self._flow.commit_interval_ms / 1_000)

    async def _require_two_clusters(self, source: Admin, target: Admin) -> None:
        cluster_id = (await source.describe_cluster()).cluster_id
        if cluster_id == (await target.describe_cluster()).cluster_id:
            raise ConfigError(
                f"{self._flow.name}: both are the cluster {cluster_id}: a cluster is not mirrored"
                " into itself"
            )

    def _producer(self) -> Producer:
        target = self._flow.target
        return Producer(
            target.bootstrap_servers,
            env=self._env,
            transactional_id=self._flow.transactional_id,
            compression=target.compression,
            batch_size=BATCH_BYTES,
            max_request_size=MAX_REQUEST_BYTES,
            buffer_memory=2 * MAX_REQUEST_BYTES,
            **client_settings(target),
        )

    def _consumer(self) -> Consumer:
        source = self._flow.source
        return Consumer(
            source.bootstrap_servers,
            env=self._env,
            isolation_level="read_committed",
            auto_offset_reset="none",
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            max_partition_fetch_bytes=FETCH_BYTES,
            **client_settings(source),
        )


def client_settings(cluster: ClusterSettings) -> dict[str, Any]:
    """Return the client settings for a cluster."""
    return {"client_id": CLIENT_ID, **cluster.client}


def admin_of(cluster: ClusterSettings, env: Env, **settings: Any) -> Admin:
    """Return an admin client of a cluster. ``settings`` override those of the cluster.

    The caller opens and closes it with ``async with``.
    """
    return Admin(cluster.bootstrap_servers, env=env, **client_settings(cluster) | settings)


def is_fenced(error: BaseException) -> bool:
    """Whether the error means that another process has fenced the flow's producer."""
    return isinstance(error, KafkaError) and error.code in {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
