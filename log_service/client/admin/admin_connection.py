"""The connection of an admin to its cluster, which ``async with`` opens and closes.

The classes with the admin's methods extend ``AdminConnection``.
"""

from collections.abc import Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

import trio

from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.client.connections.env import real_env
from log_service.common.env import Env
from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.client import AdminConfig
from log_service.security.outgoing import outgoing_security

IDLE_MS = 10_000
"""Time for which the view of the cluster keeps a topic after the last call that named it.

Without this limit, a call that lists all topics would make each refresh ask for all of them.
"""


class AdminConnection:
    """The settings of an admin, and its view of the cluster while it is open."""

    def __init__(
        self, bootstrap_servers: str | Iterable[str], *, env: Env | None = None, **settings: Any
    ) -> None:
        self.config = AdminConfig.of(bootstrap_servers, settings)
        self._env = env or real_env()
        self._security = outgoing_security(self.config.security(), self._env.rng)
        self._stack = AsyncExitStack()
        self._cluster: ClusterMetadata | None = None

    async def __aenter__(self) -> Self:
        self._nursery = await self._stack.enter_async_context(trio.open_nursery())
        self._cluster = ClusterMetadata(
            self._env,
            self.config,
            self._nursery,
            security=self._security,
            is_idle=self._is_idle,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._cluster = None
        self._nursery.cancel_scope.cancel()
        await self._stack.aclose()  # without the exception, which the nursery would wrap

    @property
    def cluster(self) -> ClusterMetadata:
        """The client's view of its cluster.

        Raises:
            KafkaError: INVALID_REQUEST, the admin is closed.
        """
        if self._cluster is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the admin is closed: use it inside 'async with'"
            )
        return self._cluster

    def _is_idle(self, _topic: str, since_ms: int) -> bool:
        """Whether no call has named the topic for ``IDLE_MS``. Its metadata is then dropped.

        ``since_ms`` is the time of the last call that named it. The next call that names the topic
        requests the metadata again.
        """
        return self._env.clock.monotonic_ms() - since_ms >= IDLE_MS

    def _limit(self, timeout_ms: int | None) -> int:
        return self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
