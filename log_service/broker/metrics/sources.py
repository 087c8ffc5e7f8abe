"""What the metrics of a broker are read from, and what is remembered between two looks at them.

Decides nothing about names. A look never changes what it looks at.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from log_service.broker.marker_sender import MarkerSender
from log_service.broker.metrics.authorizer import Decided
from log_service.broker.metrics.elections import UncleanElections
from log_service.broker.metrics.loop_turns import LoopTurns
from log_service.broker.node import Node
from log_service.broker.quotas import ClientQuotas
from log_service.metrics.rate import RateWindow
from log_service.metrics.request_meter import RequestMeter
from log_service.network.server import Server
from log_service.protocol.api_versions import ApiKey
from log_service.raft.driver import RaftDriver
from log_service.storage.log_manager import LogManager

if TYPE_CHECKING:
    from log_service.broker.login import LoginHandler


@dataclass(slots=True, kw_only=True)
class MetricsSources:
    """The rooms of one node, as its metrics page sees them. ``servers`` has one server for each listener, by the listener's name."""

    node: Node
    meters: Mapping[ApiKey, RequestMeter]
    servers: Mapping[str, Server]
    logs: LogManager
    raft: RaftDriver
    unclean_elections: UncleanElections
    quotas: ClientQuotas
    markers: MarkerSender
    decided: Decided | None = None
    """What the authorizer has done, where there is one."""
    logins: "Mapping[str, LoginHandler]" = field(default_factory=dict)
    """The logins of each listener that asks for one, by the listener's name."""
    tls_listeners: Collection[str] = ()
    """The names of the listeners that speak TLS."""
    certificate_days: Callable[[], Mapping[str, int]] = dict
    """Tells by listener in how many days its certificate ends; none of a node without TLS."""
    rates: "Rates" = field(init=False)
    turns: LoopTurns = field(init=False)

    def __post_init__(self) -> None:
        self.rates = Rates(self.node.clock.monotonic_ms())
        self.turns = LoopTurns(self.node.clock.monotonic_ns)

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        return self.node.clock.monotonic_ms()


class Rates:
    """The rates that are made of counts, each by a name of its own, and how busy the event loop was."""

    def __init__(self, began_ms: int) -> None:
        self._began_ms = began_ms
        self._windows: dict[Sequence[str], RateWindow] = {}
        self._loop = RateWindow(time.thread_time(), began_ms)

    def of(self, name: tuple[str, ...], value: float, now_ms: int) -> float:
        """Return a count's growth per second; a count that is new here began at 0 with the node."""
        window = self._windows.get(name)
        if window is None:
            window = self._windows[name] = RateWindow(0, self._began_ms)
        return window.look(value, now_ms)

    def idle_share(self, now_ms: int) -> float:
        """Return which share of its time the event loop's thread did nothing, 0 to 1; to be called on that thread."""
        return min(1.0, max(0.0, 1.0 - self._loop.look(time.thread_time(), now_ms)))
