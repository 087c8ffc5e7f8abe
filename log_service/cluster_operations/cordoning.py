"""Keeps new partitions off brokers while they are emptied. All their log directories are cordoned
meanwhile (KIP-1066).

The cordon lasts as long as the caller's block, so a broker that stays takes new partitions again, however the block ends. A broker that its
operator cordoned stays as it is. Only a broker itself takes its configuration, so one that is down is not cordoned.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from log_service.client.admin.values import ConfigResource, ItemsFailed
from log_service.client.blocking.admin import BlockingAdmin
from log_service.cluster_operations.reading import CORDONED
from log_service.common.errors import KafkaError
from log_service.config.broker import ALL_DIRECTORIES


class Cordon:
    """The brokers that are cordoned for now, and what each had of its own before."""

    def __init__(self, admin: BlockingAdmin, say: Callable[[str], object]) -> None:
        self._admin = admin
        self._say = say
        self._before: dict[int, str | None] = {}

    def forgotten(self, broker_id: int) -> None:
        """Leave out a broker that is a member no more."""
        self._before.pop(broker_id, None)

    def begin(self, broker_id: int) -> None:
        """Cordon a broker that serves; say so where the cluster refuses it, and go on."""
        resource = ConfigResource.broker(broker_id)
        try:
            entry = self._admin.describe_configs([resource])[resource].get(CORDONED)
            if entry is None:
                self._say(f"{_open(broker_id)}: its version cannot be told to take none")
            elif ALL_DIRECTORIES not in (entry.value or "").split(","):
                self._before[broker_id] = entry.value if entry.source == "DYNAMIC_BROKER_CONFIG" else None
                self._admin.alter_configs({resource: {CORDONED: ALL_DIRECTORIES}})
        except KafkaError as error:
            if isinstance(error, ItemsFailed):  # any other may have come after the broker was cordoned
                self._before.pop(broker_id, None)
            self._say(f"{_open(broker_id)}: {error}")

    def take_back(self) -> None:
        """Have all brokers take new partitions again that did before; say which of them could not be told."""
        for broker_id, value in self._before.items():
            problem = self._problem_of_restoring(broker_id, value)
            if problem:
                undo = f"set '{CORDONED}={value}'" if value else f"unset {CORDONED}"
                self._say(
                    f"broker {broker_id} still takes no new partitions: {problem}; to end that: tidelog configs {undo} --broker {broker_id}"
                )

    def _problem_of_restoring(self, broker_id: int, value: str | None) -> str:
        try:
            if all(node.node_id != broker_id for node in self._admin.describe_cluster().nodes):
                return "it is down"
            self._admin.alter_configs({ConfigResource.broker(broker_id): {CORDONED: value}})
        except KafkaError as error:
            return str(error)
        return ""


@contextmanager
def cordoned(admin: BlockingAdmin, broker_ids: Iterable[int], say: Callable[[str], object]) -> Iterator[Cordon]:
    """Keep new partitions off those brokers, which serve, until the block ends. ``say`` is told what the cluster refused."""
    cordon = Cordon(admin, say)
    try:
        for broker_id in broker_ids:
            cordon.begin(broker_id)
        yield cordon
    finally:
        cordon.take_back()


def _open(broker_id: int) -> str:
    return f"topics that are created meanwhile may be placed on broker {broker_id}"
