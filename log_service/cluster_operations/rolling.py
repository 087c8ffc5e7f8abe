"""Restarts brokers one by one, each as soon as the cluster works without it.

It records which brokers are restarted, and the stage of the current restart, so that a rolling
restart that ends early can report both.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto

from log_service.client.admin.admin import Admin
from log_service.cluster_operations.membership import refuse_unknown_brokers
from log_service.cluster_operations.moving import elect_preferred
from log_service.cluster_operations.reading import ClusterState
from log_service.cluster_operations.waiting import SYNC_SECONDS, wait_for_sync, wait_until_serving
from log_service.cluster_plans.layout import PlanRefused
from log_service.cluster_plans.rolling import roll_order
from log_service.common.errors import KafkaError

LOOK_MS = 3_000
"""How long the state of a broker may take to arrive after Ctrl-C."""

Restart = Callable[[int], Awaitable[object]]
"""Restarts a broker, and returns when its process runs again."""
Say = Callable[[str], None]


async def brokers_to_restart(
    admin: Admin, state: ClusterState, broker_ids: Sequence[int]
) -> list[int]:
    """Return the brokers to restart, in restart order: the named ones, or all that serve.

    Raises:
        PlanRefused: a broker is not registered, or is down.
    """
    await refuse_unknown_brokers(admin, state.layout, broker_ids)
    down = [each for each in broker_ids if each in state.layout.fenced]
    if down:
        raise PlanRefused(
            f"broker {down[0]} is down or not ready: start it first; only brokers that serve are"
            " restarted"
        )
    return [
        each
        for each in roll_order(state.layout, state.quorum)
        if not broker_ids or each in broker_ids
    ]


class Stage(Enum):
    """The stages of a broker's restart."""

    WAITS = auto()
    """The restart waits until the cluster can be without the broker. The broker was not touched."""
    RESTARTS = auto()
    JOINS = auto()
    """Its process runs again, but the broker does not serve yet."""


class RollingRestart:
    """One rolling restart. Call ``run`` once.

    ``before`` is the state of the cluster before it, and ``order`` has the brokers to restart.
    ``done``, ``current`` with its ``stage``, and ``waiting`` show the progress of the restart.
    """

    def __init__(
        self,
        before: ClusterState,
        order: Sequence[int],
        restart: Restart,
        say: Say,
        *,
        wait_seconds: float = SYNC_SECONDS,
    ) -> None:
        self._before = before
        self._restart = restart
        self._say = say
        self._wait_seconds = wait_seconds
        self.done: list[int] = []
        self.current: int | None = None
        self.stage = Stage.WAITS
        self.waiting = list(order)

    async def run(self, admin: Admin) -> None:
        """Restart the brokers, and then elect the preferred leaders that led before the restart.

        Raises:
            ClusterNotReady: the cluster is not in sync in time, or a restarted broker does not
                serve in time. The remaining brokers are not restarted.
        """
        while self.waiting:
            self.stage, self.current = Stage.WAITS, self.waiting.pop(0)
            await wait_for_sync(admin, self.current, self._wait_seconds, self._say)
            self._say(f"broker {self.current} restarts")
            self.stage = Stage.RESTARTS
            await self._restart(self.current)
            self.stage = Stage.JOINS
            await wait_until_serving(admin, self.current, self._say)
            self.done.append(self.current)
            self.current = None
        if self.done:
            await wait_for_sync(
                admin, self.done[-1], self._wait_seconds, self._say, is_restarted=True
            )
        home = [
            each.where for each in self._before.layout.partitions if each.leader == each.replicas[0]
        ]
        if home:
            await elect_preferred(admin, home)

    async def left_behind(self, admin: Admin) -> list[str]:
        """Return lines that report which brokers were restarted when the restart ended early.

        There is a line each for the restarted brokers, the current one, and the others.
        """
        lines = [f"restarted: {_named(self.done)}"] if self.done else []
        if self.current is not None and self.stage is Stage.WAITS:
            lines.append(f"not touched: {_named([self.current, *self.waiting])}")
        elif self.current is not None:
            what = (
                "was being restarted"
                if self.stage is Stage.RESTARTS
                else "is restarted, and was not back in the cluster yet"
            )
            lines.append(
                f"on its way: broker {self.current} {what}; now the cluster says that it"
                f" {await self._how_it_is(admin, self.current)}"
            )
            lines += [f"not touched: {_named(self.waiting)}"] if self.waiting else []
        return lines

    @property
    def left(self) -> list[int]:
        """The brokers whose restart has not begun."""
        return [
            *([self.current] if self.current is not None and self.stage is Stage.WAITS else []),
            *self.waiting,
        ]

    async def _how_it_is(self, admin: Admin, broker_id: int) -> str:
        try:
            fenced = {
                each.node_id: each.is_fenced
                for each in await admin.describe_brokers(timeout_ms=LOOK_MS)
            }
        except KafkaError as error:
            return f"is unknown ({error})"
        return "serves" if fenced.get(broker_id) is False else "is down or not ready"


def _named(broker_ids: Sequence[int]) -> str:
    return f"{'broker' if len(broker_ids) == 1 else 'brokers'} {', '.join(map(str, broker_ids))}"
