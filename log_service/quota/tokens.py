"""Bounds how many partitions a client may create and delete. A bucket has one token for each
partition (KIP-599).

The bucket fills at the quota's rate. It is full when it has the tokens that the rate gives in the
length of all windows over which quotas are measured (``windows``). A change is admitted while the
bucket is not below zero, however many partitions it has, and may take the bucket below zero. So no
quota is too small for a large topic. While the bucket is below zero, changes must wait.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.views import QuotaWindows
from log_service.quota.entities import Client, KnownLimits, QuotaKey, Quotas, Share
from log_service.quota.windows import LONGEST_PAUSE_MS, MIN_SWEEP_COUNT

ROUNDING: Final = 1e-9
"""Tolerance for rounding. A client that waited for the given time then finds enough tokens."""


class TokenBucket:
    """The tokens of the clients that share one quota. A new bucket is full."""

    __slots__ = ("_rate", "_updated_ms", "tokens")

    def __init__(self, now_ms: int) -> None:
        self.tokens: float | None = None
        self._rate = 0.0
        self._updated_ms = now_ms

    def refill(self, rate: float, windows: QuotaWindows, now_ms: int) -> float:
        """Add the tokens since the last call, and return how many there are."""
        burst = rate * windows.count * windows.size_ms / 1_000
        present = (
            burst
            if self.tokens is None
            else self.tokens + rate * (now_ms - self._updated_ms) / 1_000
        )
        self.tokens, self._rate, self._updated_ms = min(burst, present), rate, now_ms
        return self.tokens

    def take(self, count: int) -> float:
        """Take tokens, and return how many are left. The number may be negative."""
        assert self.tokens is not None, "it was refilled"
        self.tokens -= count
        return self.tokens

    def is_idle(self, windows: QuotaWindows, now_ms: int) -> bool:
        """Whether the bucket is full again by now, so that it may be dropped."""
        missing = self._rate * (windows.count * windows.size_ms - now_ms + self._updated_ms) / 1_000
        return self.tokens is None or self.tokens >= missing


@dataclass(slots=True)
class MutationCharge:
    """The bucket from which one request takes tokens, and the result.

    With ``is_strict`` the version of the request allows a refusal. ``throttle_time_ms`` is how long
    the client has to pause after the request.
    """

    rate: float
    windows: QuotaWindows
    bucket: TokenBucket
    now_ms: int
    is_strict: bool
    throttle_time_ms: int = 0

    def take(self, partition_count: int) -> None:
        """Take one token for each of ``partition_count`` partitions.

        Raises:
            KafkaError: THROTTLING_QUOTA_EXCEEDED, none are left, and ``is_strict`` allows a
                refusal. No token is taken.
        """
        present = self.bucket.refill(self.rate, self.windows, self.now_ms)
        if self.is_strict and present < -ROUNDING:
            self.throttle_time_ms = self._wait_ms(present)
            text = (
                f"the client's quota of {self.rate:g} partitions per second is used up; try again"
                f" in {self.throttle_time_ms} ms"
            )
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text)
        left = self.bucket.take(partition_count)
        if not self.is_strict and left < -ROUNDING:
            self.throttle_time_ms = self._wait_ms(left)

    def _wait_ms(self, tokens: float) -> int:
        return int(min(-tokens / self.rate * 1_000 + 0.5, LONGEST_PAUSE_MS))


@dataclass(slots=True)
class MutationQuotas:
    """The token buckets of all clients that have a quota ``controller_mutation_rate``.

    Unused buckets are dropped when new ones are added.
    """

    windows: QuotaWindows
    _limits: KnownLimits = field(
        default_factory=lambda: KnownLimits({}, (QuotaKey.CONTROLLER_MUTATION_RATE,))
    )
    _buckets: dict[Share, TokenBucket] = field(default_factory=dict)
    _sweep_count: int = MIN_SWEEP_COUNT

    @property
    def bucket_count(self) -> int:
        """The number of buckets that are remembered."""
        return len(self._buckets)

    def charge_of(
        self,
        quotas: Quotas,
        client: Client,
        now_ms: int,
        *,
        is_strict: bool,
        remember: Callable[[TokenBucket], None],
    ) -> MutationCharge | None:
        """Return a charge for a request to its client's bucket, or None if no quota applies.

        ``remember`` is called with the bucket before it changes, so that the caller can restore it
        if the request is refused.
        """
        if not quotas:
            return None
        if quotas is not self._limits.quotas:
            self._limits = KnownLimits(quotas, self._limits.keys)
        limit = self._limits.of(client)[0]
        if limit is None:
            return None
        bucket = self._bucket_of(limit.share, now_ms)
        remember(bucket)
        return MutationCharge(limit.bound, self.windows, bucket, now_ms, is_strict)

    def _bucket_of(self, share: Share, now_ms: int) -> TokenBucket:
        bucket = self._buckets.get(share)
        if bucket is None:
            if len(self._buckets) >= self._sweep_count:
                self._buckets = {
                    key: value
                    for key, value in self._buckets.items()
                    if not value.is_idle(self.windows, now_ms)
                }
                self._sweep_count = max(MIN_SWEEP_COUNT, 2 * len(self._buckets))
            bucket = self._buckets[share] = TokenBucket(now_ms)
        return bucket
