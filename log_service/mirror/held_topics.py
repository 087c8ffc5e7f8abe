"""Topics whose records the target refuses. They are left for a while, so that the others of their
flow go on.

Records of several topics share a transaction, and one that is refused aborts it. Decides which errors are a topic's own fault, and for how
long the topic is left. Knows no cluster.
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
"""What a leader refuses records with that are, or may be, wrong for this topic alone."""


class HeldTopics:
    """The topics of one flow that are left, each for ``hold_ms``."""

    def __init__(self, hold_ms: int, now_ms: Callable[[], int]) -> None:
        self._hold_ms = hold_ms
        self._now_ms = now_ms
        self._until_ms: dict[str, int] = {}

    def hold(self, topic: str) -> None:
        """Leave a topic of the source for a while."""
        self._until_ms[topic] = self._now_ms() + self._hold_ms

    def is_held(self, topic: str) -> bool:
        """Whether a topic is to be left now."""
        return self._until_ms.get(topic, 0) > self._now_ms()
