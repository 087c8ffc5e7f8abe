"""Decides when a client may request its subscription, and when it may push metrics (KIP-714).

This module also decides with which error a request is refused, and which instances of clients are
remembered. An instance is forgotten when its connection ends, when it was silent for long, when the
subscriptions change, and when there are too many newer ones. A forgotten instance loses only the
time of its last request.

Invariants:

- A push that comes too early is refused for that reason, even if it has other faults.
- A push that is refused for another reason counts as the push of its interval.
- After a client has sent its last push (``is_terminating``), the next push is refused.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.telemetry.subscriptions import Subscription

MAX_INSTANCES = 16_384
MIN_MEMORY_MS = 60_000
MEMORY_INTERVALS = 3
ACCEPTED_CODECS = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy: as Kafka numbers them, the best one first.

No compression (0) is always accepted.
"""
NO_INSTANCE = UUID(int=0)
RESERVED = frozenset({NO_INSTANCE, UUID(int=1)})
"""Ids that Kafka keeps for itself."""
ASKED_AGAIN = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
"""After these errors a client asks at once for its subscription."""
_NEVER_MS = -(1 << 62)


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """The header fields of a client's push, before its metrics are decoded."""

    subscription_id: int
    is_terminating: bool
    codec: int
    size_bytes: int


class Instance:
    """One instance of a client.

    It is valid while the cluster's subscriptions have the version ``version``.
    """

    __slots__ = (
        "_is_ending",
        "_last_error",
        "_last_get_ms",
        "_last_push_ms",
        "connection_id",
        "seen_ms",
        "subscription",
        "version",
    )

    def __init__(self, subscription: Subscription, version: int, connection_id: int) -> None:
        self.subscription = subscription
        self.version = version
        self.connection_id = connection_id
        self.seen_ms = 0
        self._last_get_ms = _NEVER_MS
        self._last_push_ms = _NEVER_MS
        self._last_error = ErrorCode.NONE
        self._is_ending = False

    def __repr__(self) -> str:
        return f"<Instance {self.subscription!r} ending={self._is_ending}>"

    @property
    def memory_ms(self) -> int:
        """The time in ms for which a silent client and its pushed metrics are remembered."""
        return max(MIN_MEMORY_MS, MEMORY_INTERVALS * self.subscription.interval_ms)

    def is_silent_at(self, now_ms: int) -> bool:
        """Return whether the client was silent for longer than it is remembered."""
        return now_ms - self.seen_ms >= self.memory_ms

    def begin_get(self, now_ms: int) -> None:
        """Accept or refuse a client's request for its subscription.

        After an error that makes clients request it at once (``ASKED_AGAIN``), no request is too
        early.

        Raises:
            KafkaError: THROTTLING_QUOTA_EXCEEDED, the request comes too early.
        """
        if now_ms - max(self._last_get_ms, self._last_push_ms) >= self.subscription.interval_ms:
            self._last_get_ms = now_ms
        elif self._last_error not in ASKED_AGAIN:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the client asks more often than it is to push"
            )
        self._last_error = ErrorCode.NONE

    def begin_push(self, push: Push, max_bytes: int, now_ms: int) -> None:
        """Accept or refuse a client's push.

        The first push after a request for the subscription may come at once, and so may the last
        push of the client.

        Raises:
            KafkaError: INVALID_REQUEST, the client has sent its last push already;
                THROTTLING_QUOTA_EXCEEDED; UNKNOWN_SUBSCRIPTION_ID; UNSUPPORTED_COMPRESSION_TYPE;
                TELEMETRY_TOO_LARGE.
        """
        try:
            self._check_push(push, max_bytes, now_ms)
        except KafkaError as error:
            self._last_error = error.code
            raise
        else:
            self._last_error = ErrorCode.NONE
        finally:
            self._is_ending = push.is_terminating

    def _check_push(self, push: Push, max_bytes: int, now_ms: int) -> None:
        if self._is_ending:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the client said before that it pushes for the last time"
            )
        is_first = self._last_get_ms > self._last_push_ms
        if is_first or now_ms - self._last_push_ms >= self.subscription.interval_ms:
            self._last_push_ms = now_ms
        elif not push.is_terminating:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the client pushes more often than it is to"
            )
        if push.subscription_id != self.subscription.subscription_id:
            raise KafkaError(
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "what the client is to push has changed"
            )
        if push.codec not in (0, *ACCEPTED_CODECS):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no codec {push.codec}"
            )
        if push.size_bytes > max_bytes:
            text = (
                f"{push.size_bytes} bytes of metrics are more than telemetry.max.bytes"
                f" ({max_bytes})"
            )
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE, text)


class Instances:
    """The instances of clients that recently requested a subscription or pushed.

    If there are too many, the one that was silent longest is removed.
    """

    def __init__(self, max_count: int = MAX_INSTANCES) -> None:
        self._max_count = max_count
        self._by_id: OrderedDict[UUID, Instance] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Instances {len(self._by_id)}>"

    def __len__(self) -> int:
        return len(self._by_id)

    def find(
        self,
        instance_id: UUID,
        version: int,
        connection_id: int,
        subscribe: Callable[[], Subscription],
        now_ms: int,
    ) -> Instance:
        """Return the instance of a client.

        A new one is made if the client is unknown, was silent too long, or has an instance of an
        earlier version of the subscriptions.
        """
        known = self._by_id.get(instance_id)
        if known is None or known.version != version or known.is_silent_at(now_ms):
            known = self._by_id[instance_id] = Instance(subscribe(), version, connection_id)
        known.connection_id, known.seen_ms = connection_id, now_ms
        self._by_id.move_to_end(instance_id)
        while len(self._by_id) > self._max_count:
            self._by_id.popitem(last=False)
        return known

    def forget(self, instance_id: UUID, connection_id: int) -> None:
        """Forget a client whose connection has ended, unless it has a new connection."""
        known = self._by_id.get(instance_id)
        if known is not None and known.connection_id == connection_id:
            del self._by_id[instance_id]
