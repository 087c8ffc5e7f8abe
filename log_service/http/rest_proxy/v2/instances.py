"""The consumers of this proxy, by the principal that created them, group and name.

A consumer exists only in one proxy. It ends when its client deletes it, when no request has used it
for a while, or with the proxy.

Invariant: there are at most ``max_count`` consumers, including those that are being closed.
"""

import logging
from functools import partial
from typing import Any, Final, NamedTuple

import trio

from log_service.client import Consumer, KafkaError
from log_service.common.env import Env
from log_service.http.cluster_clients.hosted import HostedClient
from log_service.http.cluster_clients.pool import LoginClients
from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.errors import RETRY, TOO_MANY, RestError
from log_service.http.rest_proxy.v2.instance import ConsumerInstance, InstanceSettings
from log_service.http.server.values import ANONYMOUS

OWNERS: Final = 4
"""One user may have at most a quarter of all consumers."""
SWEEP_INTERVAL_S: Final = 1.0
MIN_POLL_INTERVAL_MS: Final = 300_000
FETCH_BYTES: Final = 2 << 20
"""Bytes of one consumer's fetched records that were not polled yet.

They are few, because the proxy has many consumers.
"""

logger = logging.getLogger(__name__)


class InstanceKey(NamedTuple):
    """The principal that owns a consumer, its group and its name."""

    owner: str
    group: str
    name: str


class ConsumerInstances:
    """The consumers of one proxy. ``run`` has to run while they are used."""

    def __init__(self, env: Env, *, max_count: int, idle_ms: int) -> None:
        self._env = env
        self._max_count = max_count
        self._idle_ms = idle_ms
        self._nursery: trio.Nursery | None = None
        self._instances: dict[InstanceKey, ConsumerInstance] = {}
        self._closing_count = 0

    def __repr__(self) -> str:
        return f"<ConsumerInstances {len(self._instances)}>"

    def __len__(self) -> int:
        return len(self._instances)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the consumers and close idle ones, until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                while True:
                    await trio.sleep(SWEEP_INTERVAL_S)
                    until_ms = self._env.clock.monotonic_ms() - self._idle_ms
                    for each in list(self._instances.values()):
                        if each.is_idle_since(until_ms):
                            self._remove(each)
                            nursery.start_soon(self._expire, each)
        finally:
            self._nursery = None
            self._instances.clear()

    async def create(
        self,
        key: InstanceKey,
        clients: LoginClients,
        settings: InstanceSettings,
        consumer_settings: dict[str, Any],
    ) -> ConsumerInstance:
        """Create a consumer.

        Raises:
            ConfigError: a setting of the consumer is not valid.
            RestError: 40902, the owner already has a consumer of this group and name here. 42901,
                there are too many consumers, in total or of this owner.
        """
        owner, group, name = key
        if key in self._instances:
            text = f"Consumer instance {name[:100]} exists already."
            raise RestError(errors.INSTANCE_EXISTS, text)
        if self._nursery is None or len(self._instances) + self._closing_count >= self._max_count:
            raise RestError(TOO_MANY, "There are too many consumer instances.", RETRY)
        if not self._has_room(owner):
            raise RestError(TOO_MANY, "Your user has too many consumer instances.", RETRY)
        made = partial(
            Consumer,
            clients.servers,
            env=clients.env,
            **{
                **clients.settings(),
                "group_id": group,
                "enable_auto_commit": False,
                "allow_auto_create_topics": False,
                "max_poll_interval_ms": max(MIN_POLL_INTERVAL_MS, self._idle_ms),
                "queued_max_bytes": FETCH_BYTES,
                "fetch_max_bytes": FETCH_BYTES,
                **consumer_settings,
            },
        )
        hosted = HostedClient[Consumer](self._nursery, made, f"a consumer of group {group!r}")
        instance = ConsumerInstance(
            group=group,
            name=name,
            owner=owner,
            settings=settings,
            hosted=hosted,
            clock=self._env.clock,
        )
        self._instances[key] = instance
        try:
            async with instance:
                return instance
        except BaseException:
            self._remove(instance)
            raise

    def _has_room(self, owner: str) -> bool:
        """Return whether an owner may have another consumer.

        Without logins only the limit for the whole proxy applies.
        """
        count = sum(each.owner == owner for each in self._instances.values())
        return owner == ANONYMOUS or count < max(self._max_count // OWNERS, 1)

    def find(self, key: InstanceKey) -> ConsumerInstance:
        """Return the consumer of a principal, group and name.

        Raises:
            RestError: 40403, the principal has no consumer of this group and name.
        """
        found = self._instances.get(key)
        if found is None:
            raise errors.instance_not_found()
        return found

    async def delete(self, instance: ConsumerInstance) -> None:
        """Let a consumer leave its group, and close it."""
        self._remove(instance)
        self._closing_count += 1
        try:
            await instance.close()
        finally:
            self._closing_count -= 1

    async def close(self) -> None:
        """Close all consumers at the same time, because the proxy stops."""
        async with trio.open_nursery() as nursery:
            for each in list(self._instances.values()):
                nursery.start_soon(self._delete_quietly, each)

    async def _delete_quietly(self, instance: ConsumerInstance) -> None:
        try:
            await self.delete(instance)
        except (KafkaError, RestError) as error:
            logger.warning("%r did not commit at its end: %s", instance, error)

    async def _expire(self, instance: ConsumerInstance) -> None:
        self._closing_count += 1
        try:
            await instance.expire()
        finally:
            self._closing_count -= 1

    def _remove(self, instance: ConsumerInstance) -> None:
        key = InstanceKey(instance.owner, instance.group, instance.name)
        if self._instances.get(key) is instance:
            del self._instances[key]
