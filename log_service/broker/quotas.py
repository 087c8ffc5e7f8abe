"""Client quotas of a running broker: charges of requests, and connection rates of addresses.

Decides what is counted when. A produce request is counted by its size, and the response to a
consumer's fetch by its own size. Every request is counted by its handler's time, whether it was
refused or not. The broker responds first, and then reads nothing more from the connection for the
larger of the two pauses (KIP-219). A fetch that has to pause gets no records. They are not counted,
because the client requests them again later. Followers and the nodes' own requests are not charged.
The time of a produce request without a response is not charged either if it is handled at once.

The time of a request is the time of its handler, and of all later work for it on the event loop and
in the pool. It is charged with the response, or when the request fails or its client leaves. Work
after that is charged as it is done.

A pause for request time applies to all connections that share the quota. A request on another of
these connections is delayed before it is decoded. It continues after the pause, which other
requests may have prolonged meanwhile, but after ``MAX_PUT_OFF_MS`` at the latest. In Apache Kafka
each connection pauses for itself, for one window of the quota at most. So there a client with a
hundred connections gets a hundred times its quota. Pauses for bytes have no such limit, and apply
to a single connection.

If no quota of a counted kind is set, the pipelines have no quotas object. Handling a request then
does nothing for quotas.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, final

from log_service.broker.requests.call import Api, Call, QuotaKind, Quotas, Side
from log_service.common.access import AclOperation
from log_service.common.addresses import plain_address
from log_service.common.env import Clock
from log_service.config.views import QuotaWindows
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage
from log_service.network.budget import ServerBudget
from log_service.network.responses import ConnectionContext
from log_service.protocol.schema import Message
from log_service.quota.entities import (
    ANY_IP,
    CLIENT_KEYS,
    IP,
    Client,
    KnownLimits,
    Limit,
    QuotaKey,
    has_any,
)
from log_service.quota.entities import Quotas as QuotaValues
from log_service.quota.windows import Meters

NS_PER_PERCENT = 10_000_000
"""One percent of a second of the node's thread."""
NOTHING_SET: QuotaValues = {}

MAX_PUT_OFF_MS = 25_000
"""The longest time that a request waits because others use up its quota.

It is below the 30 s after which clients give a request up. If more connections share a quota than
the limit has seconds, they get more than the quota. The reason is that the wait of each ends in
time.
"""
MAX_MEMBER_PUT_OFF_MS = 3_000
"""The longest time that requests of group members are put off.

The coordinator must receive these within ``group.min.session.timeout.ms``.
"""
SPREAD = 20
"""Requests that were put off wake within a twentieth of the pause, those that have waited longest
first.
"""


class Governed(Protocol):
    """An object that charges requests to quotas, such as a pipeline."""

    quotas: Quotas | None


class ClientQuotas:
    """Measures the rates of clients against their quotas.

    It gets each new metadata image by ``on_image``. It passes the quotas to pipelines and
    listeners.
    """

    def __init__(
        self, clock: Clock, windows: QuotaWindows, gate: ServerBudget | None = None
    ) -> None:
        self.clock = clock
        self.windows = windows
        self.produced, self.fetched = Meters(windows), Meters(windows)
        """Bytes of clients' records."""
        self.spent = Meters(windows, longest_ms=windows.size_ms)
        """The node's time that requests took, in percent of a second."""
        self.meters = {
            QuotaKey.PRODUCER_BYTE_RATE: self.produced,
            QuotaKey.CONSUMER_BYTE_RATE: self.fetched,
            QuotaKey.REQUEST_PERCENTAGE: self.spent,
        }
        self.addresses = AddressRates(windows)
        self._gate = gate
        self._pipelines: list[Governed] = []
        self._limits = KnownLimits(NOTHING_SET, CLIENT_KEYS)

    def __repr__(self) -> str:
        return f"<ClientQuotas entities={len(self._limits.quotas)}>"

    def govern(self, pipeline: Governed) -> None:
        """Charge the requests of a pipeline while there are quotas."""
        self._pipelines.append(pipeline)
        self._update_pipelines((pipeline,))

    def on_image(self, delta: MetadataDelta, image: MetadataImage) -> None:  # noqa: ARG002 - the map says whether it changed
        """Use the quotas of this image."""
        quotas = image.access.client_quotas
        if quotas is self._limits.quotas:
            return
        self._limits = KnownLimits(quotas, CLIENT_KEYS)
        self._update_pipelines(self._pipelines)
        if self._gate is not None:
            self.addresses.set_quotas(quotas)
            self._gate.address_rates = (
                self.addresses if has_any(quotas, QuotaKey.CONNECTION_CREATION_RATE) else None
            )

    def _update_pipelines(self, pipelines: Sequence[Governed]) -> None:
        in_force = self if has_any(self._limits.quotas, *CLIENT_KEYS) else None
        for pipeline in pipelines:
            pipeline.quotas = in_force

    def put_off_ms(self, api: Api, connection: ConnectionContext, client_id: str | None) -> int:
        """Return for how many ms a request is delayed, because a request time quota is used up.

        The pause applies to all clients that share the quota. 0 means that the request can be
        handled.
        """
        if not api.max_put_off_ms:
            return 0
        limit = self._limits.of(Client(connection.principal.name, client_id or ""))[REQUEST]
        wait_ms = 0 if limit is None else self._wait_ms(api.max_put_off_ms, limit.share, connection)
        if wait_ms:
            self.spent.note_pause(wait_ms)
        else:
            connection.put_off_since_ms = None
        return wait_ms

    def _wait_ms(self, most_ms: int, share: object, connection: ConnectionContext) -> int:
        """Return for how many ms the next request of a connection is delayed.

        It waits for the pause of its quota, and for earlier requests that share the quota.
        """
        now_ms, since_ms = self.clock.monotonic_ms(), connection.put_off_since_ms
        pause_ms = self.spent.pause_left_ms(share, now_ms)
        if since_ms is None:
            since_ms = connection.put_off_since_ms = now_ms
            if not pause_ms:
                return self.spent.claim_left_ms(share, now_ms)
        room_ms = max(since_ms + most_ms - now_ms, 0)
        wait_ms = min(pause_ms + pause_ms * room_ms // (most_ms * SPREAD), room_ms)
        self.spent.claim(share, now_ms + wait_ms)
        return wait_ms

    def is_free(self, call: Call) -> bool:
        """Whether a request is not charged: that of a follower, or one for the metadata log.

        A client that only claims to be a follower is charged.
        """
        is_of_follower = call.route.api.is_of_follower
        if is_of_follower is None or not (
            is_of_follower(call.request) or call.route.side is Side.CONTROLLER
        ):
            return False
        return call.access is None or call.access.could_cluster(AclOperation.CLUSTER_ACTION)

    def account_of(self, call: Call, request_bytes: int, started_ns: int) -> "ClientAccount | None":
        """Return the account of a request, or None if no quota applies or its API is free."""
        kind = call.route.api.quota
        if kind is QuotaKind.NONE:
            return None
        limits = self._limits.of(Client(call.connection.principal.name, call.client_id or ""))
        if limits == NO_LIMITS:
            return None
        return ClientAccount(self, kind, limits, request_bytes, started_ns)


REQUEST = CLIENT_KEYS.index(QuotaKey.REQUEST_PERCENTAGE)
NO_LIMITS = (None,) * len(CLIENT_KEYS)


@final
class ClientAccount:
    """The account of one request of a client with quotas."""

    __slots__ = (
        "_began_ns",
        "_counting",
        "_fetch",
        "_handled_ns",
        "_kind",
        "_noted_ns",
        "_pause_ms",
        "_produce",
        "_quotas",
        "_request",
        "_request_bytes",
    )

    def __init__(
        self,
        quotas: ClientQuotas,
        kind: QuotaKind,
        limits: tuple[Limit | None, ...],
        request_bytes: int,
        started_ns: int,
    ) -> None:
        self._quotas = quotas
        self._kind = kind
        self._produce, self._fetch, self._request = limits
        self._request_bytes = request_bytes
        self._began_ns = started_ns
        self._handled_ns: int | None = (
            None  # None while the handler runs, whose time is counted as a whole
        )
        self._counting = 0  # blocks of ``counted`` that are entered
        self._noted_ns = started_ns  # until when their time is noted
        self._pause_ms: int | None = None

    @property
    def max_fetch_bytes(self) -> int | None:
        """The most bytes that a fetch response may hold, or None for no limit.

        A quota is measured over several windows of time. The limit is what the client's quota
        allows in the length of all windows but one.
        """
        return (
            None if self._fetch is None else int(self._fetch.bound * self._quotas.windows.burst_s)
        )

    def set_aside(self) -> None:
        """Note that the handler has returned and the response comes later.

        The time until then is not charged.
        """
        self._handled_ns = self._spent_ns()
        self._noted_ns = self._began_ns + self._handled_ns

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Charge the time of the block to the request, once the handler has returned.

        While the handler runs, its whole time is charged. Blocks may overlap.
        """
        if not self._counting:
            self._noted_ns = self._quotas.clock.monotonic_ns()
        self._counting += 1
        try:
            yield
        finally:
            self._note_time()
            self._counting -= 1

    def _note_time(self) -> None:
        """Add the time since the last call to the cost of the request.

        If the request was charged already, charge this time at once.
        """
        now_ns = self._quotas.clock.monotonic_ns()
        passed_ns, self._noted_ns = now_ns - self._noted_ns, now_ns
        if self._handled_ns is None:
            return
        if self._pause_ms is None:
            self._handled_ns += passed_ns
        elif self._request is not None and passed_ns:
            limit = self._request
            self._quotas.spent.charge(
                limit.share,
                passed_ns / NS_PER_PERCENT,
                limit.bound,
                self._quotas.clock.monotonic_ms(),
            )

    def must_pause(self, response_bytes: int) -> bool:
        """Count a fetch response before it is sent. Return whether the client must pause.

        If so, the response must have no records, and its bytes are not counted.
        """
        quotas, limit = self._quotas, self._fetch
        now_ms = quotas.clock.monotonic_ms()
        found_ms = (
            0
            if limit is None
            else quotas.fetched.charge(limit.share, response_bytes, limit.bound, now_ms)
        )
        self._pause_ms = _settled(quotas.fetched, found_ms, quotas.spent, self._charge_time(now_ms))
        if self._pause_ms and limit is not None:
            quotas.fetched.take_back(limit.share, response_bytes, now_ms)
        return self._pause_ms > 0

    def charge(self, response: Message | None) -> int:
        """Charge the request, once. Return for how many ms its connection has to pause."""
        if self._pause_ms is None:
            quotas, found_ms = self._quotas, 0
            now_ms = quotas.clock.monotonic_ms()
            is_produce = self._kind is QuotaKind.PRODUCE
            if is_produce and self._produce is not None:
                share, bound = self._produce
                found_ms = quotas.produced.charge(share, self._request_bytes, bound, now_ms)
            is_time_free = is_produce and response is None and self._handled_ns is None
            self._pause_ms = _settled(
                quotas.produced,
                found_ms,
                quotas.spent,
                0 if is_time_free else self._charge_time(now_ms),
            )
        return self._pause_ms

    def _charge_time(self, now_ms: int) -> int:
        limit = self._request
        if limit is None:
            return 0
        if self._counting:
            self._note_time()
        spent_ns = self._spent_ns() if self._handled_ns is None else self._handled_ns
        return self._quotas.spent.charge(
            limit.share, spent_ns / NS_PER_PERCENT, limit.bound, now_ms
        )

    def _spent_ns(self) -> int:
        return self._quotas.clock.monotonic_ns() - self._began_ns


def _settled(of_bytes: Meters, bytes_ms: int, of_time: Meters, time_ms: int) -> int:
    """Return the longer of two pauses, and note which quota requires it."""
    if not bytes_ms and not time_ms:
        return 0
    found_ms = max(bytes_ms, time_ms)
    (of_bytes if bytes_ms > time_ms else of_time).note_pause(found_ms)
    return found_ms


class AddressRates:
    """Measures the connection rates of addresses against their quotas (KIP-612).

    Apache Kafka also has quotas for host names. They apply to nothing here, because connections are
    known by address only.
    """

    def __init__(self, windows: QuotaWindows) -> None:
        self.meters = Meters(windows, longest_ms=windows.size_ms)
        self._rates: dict[str, float] = {}
        self._default: float | None = None

    def set_quotas(self, quotas: QuotaValues) -> None:
        """Use these quotas from now on."""
        rates = {
            entity[0]: values.get(QuotaKey.CONNECTION_CREATION_RATE)
            for entity, values in quotas.items()
            if entity[0].entity_type == IP
        }
        self._default = rates.pop(ANY_IP, None)
        self._rates = {
            plain_address(part.name): rate for part, rate in rates.items() if rate is not None
        }

    def refusal_delay_ms(self, host: str, now_ms: int) -> int:
        """Count a new connection. Return for how many ms to keep it open before it is closed.

        0 means that the connection is accepted. A refused connection is not counted.
        """
        bound = self._rates.get(plain_address(host), self._default)
        if bound is None:
            return 0
        delay_ms = self.meters.charge(host, 1, bound, now_ms)
        if delay_ms:
            self.meters.take_back(host, 1, now_ms)
            self.meters.note_pause(delay_ms)
        return delay_ms
