"""Remembers topics that are not mirrored for a while, because the target refuses their records.

Records of several topics share a transaction, and one refused record aborts it. If the topic of
this record is left out, the other topics of the flow can continue. This module names the errors
that are the fault of one topic. Its callers decide which topics are left out, and for how long.
"""

from collections.abc import Callable

from log_service.common.errors import ErrorCode

FAULTS_OF_A_TOPIC = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
"""Errors of a leader that refuses records, and that are or may be the fault of one topic."""


class HeldTopics:
    """The topics of one flow that are left out of mirroring, each for ``hold_ms``."""

    def __init__(self, hold_ms: int, now_ms: Callable[[], int]) -> None:
        self._hold_ms = hold_ms
        self._now_ms = now_ms
        self._until_ms: dict[str, int] = {}

    def hold(self, topic: str) -> None:
        """Leave out a topic of the source for ``hold_ms`` from now on."""
        self._until_ms[topic] = self._now_ms() + self._hold_ms

    def is_held(self, topic: str) -> bool:
        """Whether a topic is left out of mirroring now."""
        return self._until_ms.get(topic, 0) > self._now_ms()
