"""Keeps new partitions off brokers while they are emptied, by cordoned directories (KIP-1066).

All log directories of such a broker are cordoned until the caller's block ends. So a broker that
stays in the cluster takes new partitions again, however the block ends. A broker that its operator
cordoned before stays cordoned. Only a running broker accepts a change of ``cordoned.log.dirs``, so
a broker that is down is not cordoned.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import ConfigResource, ItemsFailed
from log_service.cluster_operations.reading import CORDONED
from log_service.common.errors import KafkaError
from log_service.config.broker import ALL_DIRECTORIES

TAKE_BACK_SECONDS = 30.0
"""How long the end of a block may take to undo the cordons."""


class Cordon:
    """The brokers that are cordoned for now, each with its earlier ``cordoned.log.dirs``."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._before: dict[int, str | None] = {}

    def forgotten(self, broker_id: int) -> None:
        """Forget the cordon of a broker that has left the cluster, so that it is not undone."""
        self._before.pop(broker_id, None)

    async def begin(self, admin: Admin, broker_id: int) -> None:
        """Cordon a serving broker, unless it is cordoned already.

        If the cluster refuses or its version has no cordons, report that and continue.
        """
        resource = ConfigResource.broker(broker_id)
        try:
            entry = (await admin.describe_configs([resource]))[resource].get(CORDONED)
            if entry is None:
                self._say(f"{_open(broker_id)}: its version cannot be told to take none")
            elif ALL_DIRECTORIES not in (entry.value or "").split(","):
                self._before[broker_id] = (
                    entry.value if entry.source == "DYNAMIC_BROKER_CONFIG" else None
                )
                await admin.alter_configs({resource: {CORDONED: ALL_DIRECTORIES}})
        except KafkaError as error:
            if isinstance(error, ItemsFailed):
                # Any other may have come after the broker was cordoned.
                self._before.pop(broker_id, None)
            self._say(f"{_open(broker_id)}: {error}")

    async def take_back(self, admin: Admin) -> None:
        """Undo the cordons of all brokers, and report the brokers that could not be reached."""
        for broker_id, value in self._before.items():
            problem = await self._problem_of_restoring(admin, broker_id, value)
            if problem:
                undo = f"set '{CORDONED}={value}'" if value else f"unset {CORDONED}"
                self._say(
                    f"broker {broker_id} still takes no new partitions: {problem}; to end that:"
                    f" tidelog configs {undo} --broker {broker_id}"
                )

    async def _problem_of_restoring(self, admin: Admin, broker_id: int, value: str | None) -> str:
        try:
            if all(node.node_id != broker_id for node in (await admin.describe_cluster()).nodes):
                return "it is down"
            await admin.alter_configs({ConfigResource.broker(broker_id): {CORDONED: value}})
        except KafkaError as error:
            return str(error)
        return ""


@asynccontextmanager
async def cordoned(admin: Admin, say: Callable[[str], object]) -> AsyncIterator[Cordon]:
    """Yield a cordon that is undone at the end of the block, even if the block is cancelled.

    ``say`` is called with a line for each request that the cluster refuses.
    """
    cordon = Cordon(say)
    try:
        yield cordon
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + TAKE_BACK_SECONDS):
            await cordon.take_back(admin)


def _open(broker_id: int) -> str:
    return f"topics that are created meanwhile may be placed on broker {broker_id}"
