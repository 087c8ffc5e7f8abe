"""Lost brokers: their process has just ended, and no other brokers are elected in their place yet.

Decides which responses wait for that election. A client asks another broker at once when its
leader's connection ends. If the response names the dead leader, librdkafka asks again only a second
later. Therefore a response that would name a dead broker waits until the image names another
leader, or none. A dead broker also stays listed for clients for a while after its fencing. The
reason is that librdkafka ends the thread of a broker that a response leaves out. It loses another
second if that thread has not handed its partitions over yet.

Invariants:

- A broker counts as lost only while its addresses refuse connections, or while a probe of them is
  in progress.
- A response waits once, within ``node.death.grace.ms`` and the time for an election.
- No response waits if that key is 0 or less.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import trio

from log_service.broker.requests.call import Call, Deferred, StartTask
from log_service.common.env import NodeEnv
from log_service.common.timers import TimerQueue
from log_service.common.types import BrokerEpoch, NodeId
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import BrokerRegistration, MetadataImage
from log_service.replication.purgatory import Purgatory, Watch

ELECTION_MS = 300
"""How long a response waits at most for the election after the grace period.

The active controller may have died, too.
"""
PROBE_PAUSE_MS = 20
"""Pause before the next probe after a probe that was broken off.

The process is exiting, and the system closes its sockets one by one.
"""
STAYS_LISTED_MS = 5_000
"""How long a broker stays listed for clients after its fencing.

Clients of its partitions request metadata within a second or two.
"""


@dataclass(frozen=True, slots=True, eq=False)
class _Loss:
    """A broker that closed its connection. ``until_ms`` is when responses stop waiting."""

    epoch: BrokerEpoch
    until_ms: int


class LostBrokers:
    """The brokers that one node takes to be lost, and the responses that wait for elections.

    ``start_task`` runs probes. ``grace_ms`` is ``node.death.grace.ms``.
    """

    def __init__(
        self,
        env: NodeEnv,
        timers: TimerQueue,
        *,
        image: Callable[[], MetadataImage],
        listener_name: str,
        grace_ms: int,
        start_task: StartTask,
    ) -> None:
        self._env = env
        self._timers = timers
        self._image = image
        self._listener_name = listener_name
        self._grace_ms = grace_ms
        self._start_task = start_task
        self._losses: dict[NodeId, _Loss] = {}
        self._fenced: dict[NodeId, tuple[BrokerEpoch, int]] = {}
        self._waiting: Purgatory[NodeId] = Purgatory(timers)

    def __repr__(self) -> str:
        return f"<LostBrokers {sorted(self._losses)} waiting={len(self._waiting)}>"

    def __len__(self) -> int:
        """Return the number of waiting responses."""
        return len(self._waiting)

    # Signs of death

    def connection_lost(self, host: str, port: int) -> None:
        """Note that the broker at this address closed its connection. Probe whether it is gone."""
        broker = next(
            (each for each in self._image().cluster.unfenced() if self._is_at(each, host, port)),
            None,
        )
        if broker is None or broker.node_id in self._losses or self._grace_ms <= 0:
            return
        loss = self._losses[broker.node_id] = _Loss(
            broker.epoch, self._env.clock.monotonic_ms() + self._grace_ms + ELECTION_MS
        )
        self._timers.schedule(loss.until_ms, partial(self._settle, broker.node_id, loss))
        self._start_task(self._examine, broker, loss)

    def _is_at(self, broker: BrokerRegistration, host: str, port: int) -> bool:
        endpoint = broker.endpoints.get(self._listener_name)
        return endpoint is not None and (endpoint.host, endpoint.port) == (host, port)

    async def _examine(self, broker: BrokerRegistration, loss: _Loss) -> None:
        """Probe a broker that closed its connection.

        If its addresses do not refuse connections, it is not lost.
        """
        from log_service.controller.death_detector import (  # noqa: PLC0415 - a node alone loses no broker
            probe,
        )
        from log_service.controller.death_watch import Finding  # noqa: PLC0415 - as above

        finding = Finding.BROKEN_OFF
        while finding is Finding.BROKEN_OFF and self._losses.get(broker.node_id) is loss:
            finding = await probe(self._env, broker.endpoints.values())
            if finding is Finding.BROKEN_OFF:
                await trio.sleep(PROBE_PAUSE_MS / 1_000)
        if finding is not Finding.REFUSED:
            self._settle(broker.node_id, loss)

    def _settle(self, node_id: NodeId, loss: _Loss) -> None:
        """Stop counting a broker as lost, and send the responses that wait for it."""
        if self._losses.get(node_id) is loss:
            del self._losses[node_id]
            self._waiting.check(node_id)

    def on_image(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Note newly fenced brokers.

        A broker that is fenced, gone or restarted no longer counts as lost.
        """
        for node_id, broker in delta.changed_brokers.items():
            before = delta.base.cluster.brokers.get(node_id)
            if (
                broker is not None
                and broker.is_fenced
                and before is not None
                and not before.is_fenced
                and before.epoch == broker.epoch
            ):
                self._fenced[node_id] = (
                    broker.epoch,
                    self._env.clock.monotonic_ms() + STAYS_LISTED_MS,
                )
        for node_id, loss in list(self._losses.items()):
            now = image.cluster.brokers.get(node_id)
            if now is None or now.is_fenced or now.epoch != loss.epoch:
                self._settle(node_id, loss)

    # Responses to clients

    def just_fenced(self) -> frozenset[NodeId]:
        """Return the fenced brokers that stay listed for clients."""
        if not self._fenced:
            return frozenset()
        now_ms, brokers = self._env.clock.monotonic_ms(), self._image().cluster.brokers
        self._fenced = {
            each: (epoch, until_ms)
            for each, (epoch, until_ms) in self._fenced.items()
            if until_ms > now_ms
        }
        return frozenset(
            each
            for each, (epoch, _) in self._fenced.items()
            if each in brokers and brokers[each].epoch == epoch
        )

    def wait(
        self,
        call: Call,
        leaders: Callable[[], Iterable[NodeId]],
        on_settled: Callable[[Deferred], None],
    ) -> Deferred | None:
        """Return a deferred response if one of the leaders is lost, else None.

        ``on_settled`` is called to complete it once the broker is not lost any more, or when the
        wait has taken too long.
        """
        lost = self._lost_of(leaders) if self._losses else ()
        if not lost:
            return None
        operation = _Waiting(call.defer(), lambda: not self._lost_of(leaders), on_settled)
        operation.wait(
            self._waiting.watch(operation, lost, max(self._losses[each].until_ms for each in lost))
        )
        return operation.deferred

    def _lost_of(self, leaders: Callable[[], Iterable[NodeId]]) -> frozenset[NodeId]:
        return frozenset(leaders()) & self._losses.keys() if self._losses else frozenset()


class _Waiting:
    """A response that waits for an election."""

    def __init__(
        self,
        deferred: Deferred,
        is_settled: Callable[[], bool],
        on_settled: Callable[[Deferred], None],
    ) -> None:
        self.deferred = deferred
        self._is_settled = is_settled
        self._on_settled = on_settled

    def wait(self, watch: Watch[NodeId]) -> None:
        """Have the wait cancelled when the connection of the request ends."""
        self.deferred.on_discard(watch.cancel)

    def is_ready(self, _key: NodeId) -> bool:
        """Whether no leader is lost any more."""
        return self._is_settled()

    def on_ready(self) -> None:
        """Call ``on_settled``, which sends the response."""
        self._on_settled(self.deferred)

    def on_expired(self) -> None:
        """Call ``on_settled``, although a leader is still lost."""
        self._on_settled(self.deferred)
