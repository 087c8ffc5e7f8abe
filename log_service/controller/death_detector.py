"""Detects dead brokers before their sessions end, by their heartbeat connections and by probes.

``death_watch`` decides when to probe a broker and when to fence it. This file sends the probes, and
runs a task for each suspected broker. A probe connects to the registered addresses of the broker
one after the other, until one does not refuse. There it sends ApiVersions in plaintext, or begins a
handshake if the broker uses TLS. It finishes neither handshake nor login, because any byte that
comes back is a response.

Invariants: suspicions of an earlier controller epoch are dropped with that epoch. A probe takes a
bounded time.
"""

import errno
import logging
from collections.abc import Callable, Iterable

import trio

from log_service.common.env import NodeEnv
from log_service.common.types import BrokerEpoch, NodeId
from log_service.config.security import TLS_NUMBERS
from log_service.controller.death_watch import Action, DeathWatch, Fence, Finding, Probe
from log_service.metadata.image import BrokerRegistration, Endpoint, MetadataImage
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.frames import RequestHeader, encode_request
from log_service.protocol.messages.api_versions import ApiVersionsRequest

PROBE_TIMEOUT_MS = 1_000
CLIENT_ID = "controller-probe"

logger = logging.getLogger(__name__)


class DeathDetector:
    """The brokers' connections to the controller of this node.

    ``suspect`` is called with a broker whose addresses refuse connections, at the beginning of the
    grace period and during it. ``fence`` is called with a dead broker.
    """

    def __init__(
        self,
        env: NodeEnv,
        nursery: trio.Nursery,
        *,
        own_id: NodeId,
        grace_ms: int,
        image: Callable[[], MetadataImage],
        suspect: Callable[[NodeId, BrokerEpoch], None],
        fence: Callable[[NodeId, BrokerEpoch], None],
    ) -> None:
        self._env = env
        self._nursery = nursery
        self._own_id = own_id
        self._grace_ms = grace_ms
        self._image = image
        self._suspect = suspect
        self._fence = fence
        self._watch = DeathWatch(grace_ms)

    @property
    def watch(self) -> DeathWatch:
        """The watch that holds the suspicions of the controller's current epoch."""
        return self._watch

    def __repr__(self) -> str:
        return f"<DeathDetector of={self._own_id} {self._watch!r}>"

    def begin_epoch(self) -> None:
        """Drop all suspicions, and suspect every other unfenced broker of the metadata.

        None of them has a connection to this node yet.
        """
        self._watch = DeathWatch(self._grace_ms)
        for broker in self._image().cluster.unfenced():
            if broker.node_id != self._own_id:
                self._perform(
                    self._watch,
                    broker.node_id,
                    broker.epoch,
                    self._watch.suspect(broker.node_id, broker.epoch),
                )

    def note_heartbeat(
        self, node_id: NodeId, epoch: BrokerEpoch, connection_id: int
    ) -> Callable[[], None] | None:
        """Note a heartbeat, and return the function to call when its connection has ended.

        Return None if the sender is not a registered broker, or this node's own.
        """
        if self._registered(node_id, epoch) is None or node_id == self._own_id:
            return None
        watch = self._watch
        watch.note_heartbeat(node_id, epoch, connection_id)

        def on_closed() -> None:
            if watch is self._watch:
                self._perform(
                    watch, node_id, epoch, watch.connection_ended(node_id, epoch, connection_id)
                )

        return on_closed

    def _registered(self, node_id: NodeId, epoch: BrokerEpoch) -> BrokerRegistration | None:
        broker = self._image().cluster.brokers.get(node_id)
        return broker if broker is not None and broker.epoch == epoch else None

    def _perform(
        self, watch: DeathWatch, node_id: NodeId, epoch: BrokerEpoch, action: Action
    ) -> None:
        if action is not None:
            self._nursery.start_soon(self._examine, watch, node_id, epoch, action)

    async def _examine(
        self, watch: DeathWatch, node_id: NodeId, epoch: BrokerEpoch, action: Action
    ) -> None:
        """Probe a broker until it is dead or no longer suspected."""
        while isinstance(action, Probe):
            await trio.sleep(action.pause_ms / 1_000)
            broker = self._registered(node_id, epoch)
            if watch is not self._watch or broker is None or not watch.is_suspected(node_id, epoch):
                return
            finding = await probe(self._env, broker.endpoints.values())
            if watch is not self._watch:
                return
            action = watch.probed(node_id, epoch, finding, self._env.clock.monotonic_ms())
            if finding is Finding.REFUSED and isinstance(action, Probe):
                self._suspect(node_id, epoch)
        if isinstance(action, Fence):
            self._fence(node_id, epoch)


async def probe(env: NodeEnv, endpoints: Iterable[Endpoint]) -> Finding:
    """Connect to the addresses one after the other, until one does not refuse.

    Return the finding about this address, or REFUSED if all addresses refuse.
    """
    findings = set()
    for endpoint in endpoints:
        finding = await _probe_one(env, endpoint)
        if finding is not Finding.REFUSED:
            return finding
        findings.add(finding)
    return Finding.REFUSED if findings else Finding.UNKNOWN


async def _probe_one(env: NodeEnv, endpoint: Endpoint) -> Finding:
    with trio.move_on_after(PROBE_TIMEOUT_MS / 1_000):
        try:
            connection = await env.network.connect(endpoint.host, endpoint.port)
        except OSError as error:
            return Finding.REFUSED if error.errno == errno.ECONNREFUSED else Finding.UNKNOWN
        try:
            await connection.send_gathered([_question(endpoint)])
            return (
                Finding.RESPONDED
                if await connection.receive_into(bytearray(64))
                else Finding.BROKEN_OFF
            )
        except OSError:
            return Finding.BROKEN_OFF
        finally:
            connection.close()
    return Finding.UNKNOWN


def _question(endpoint: Endpoint) -> bytes:
    """Return bytes that a listening broker responds to."""
    if endpoint.security_protocol in TLS_NUMBERS:
        from log_service.rpc.hello import (  # noqa: PLC0415 - few clusters probe, and fewer with TLS
            client_hello,
        )

        return client_hello(endpoint.host)
    header = RequestHeader(ApiKey.API_VERSIONS, 0, 0, CLIENT_ID)
    return b"".join(encode_request(header, ApiVersionsRequest()))  # type: ignore[arg-type]  # no file slices
