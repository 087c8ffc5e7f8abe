"""The objects that a broker's metrics read, and the values kept between two scrapes.

Decides nothing about names. Reading never changes the object that is read.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from log_service.broker.metrics.authorizer import Decided
from log_service.broker.metrics.elections import UncleanElections
from log_service.broker.metrics.loop_turns import LoopTurns
from log_service.broker.node import Node
from log_service.broker.quotas import ClientQuotas
from log_service.broker.transactions.marker_sender import MarkerSender
from log_service.metrics.rate import RateWindow
from log_service.metrics.request_meter import RequestMeter
from log_service.network.server import Server
from log_service.protocol.api_versions import ApiKey
from log_service.raft.driver import RaftDriver
from log_service.storage.log_manager import LogManager

if TYPE_CHECKING:
    from log_service.broker.logins.login import LoginHandler


@dataclass(slots=True, kw_only=True)
class MetricsSources:
    """The parts of one node that its metrics page reads.

    ``servers`` has one server for each listener, by the listener's name.
    """

    node: Node
    meters: Mapping[ApiKey, RequestMeter]
    servers: Mapping[str, Server]
    logs: LogManager
    raft: RaftDriver
    unclean_elections: UncleanElections
    quotas: ClientQuotas
    markers: MarkerSender
    decided: Decided | None = None
    """The counts of the authorizer, if there is one."""
    logins: "Mapping[str, LoginHandler]" = field(default_factory=dict)
    """The logins of each listener that requires one, by the listener's name."""
    tls_listeners: Collection[str] = ()
    """The names of the listeners that speak TLS."""
    certificate_days: Callable[[], Mapping[str, int]] = dict
    """Return the days until each listener's certificate expires. Empty on a node without TLS."""
    rates: "Rates" = field(init=False)
    turns: LoopTurns = field(init=False)

    def __post_init__(self) -> None:
        self.rates = Rates(self.node.clock.monotonic_ms())
        self.turns = LoopTurns(self.node.clock.monotonic_ns)

    def now_ms(self) -> int:
        """Return monotonic milliseconds."""
        return self.node.clock.monotonic_ms()


class Rates:
    """Rates of named counts, and the idle share of the event loop."""

    def __init__(self, began_ms: int) -> None:
        self._began_ms = began_ms
        self._windows: dict[Sequence[str], RateWindow] = {}
        self._loop = RateWindow(time.thread_time(), began_ms)

    def of(self, name: tuple[str, ...], value: float, now_ms: int) -> float:
        """Return the growth per second of the count ``name``, whose value is now ``value``.

        A count that was not seen before is taken as 0 at the start of the node.
        """
        window = self._windows.get(name)
        if window is None:
            window = self._windows[name] = RateWindow(0, self._began_ms)
        return window.look(value, now_ms)

    def idle_share(self, now_ms: int) -> float:
        """Return the idle share of the event loop's thread, 0 to 1. Call it on that thread."""
        return min(1.0, max(0.0, 1.0 - self._loop.look(time.thread_time(), now_ms)))
