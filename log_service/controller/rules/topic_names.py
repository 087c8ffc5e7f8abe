"""Decides whether a new topic may have its name.

Kafka's rules apply: the name is valid, and no two names differ only in dots and underscores,
because metrics write both as an underscore.
"""

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.topic_names import topic_name_fault
from log_service.metadata.image import TopicsImage, colliding_key


def validate_topic_name(name: str) -> None:
    """Check that a name is valid, without regard to other topics.

    Raises:
        KafkaError: INVALID_TOPIC_EXCEPTION.
    """
    fault = topic_name_fault(name)
    if fault is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)


class TakenNames:
    """Names of existing topics, and of topics that the same request creates, by collision key.

    Names that differ only in dots and underscores have the same key.
    """

    def __init__(self, topics: TopicsImage) -> None:
        self._existing = topics.by_colliding_key
        self._created: dict[str, str] = {}

    def collision(self, name: str) -> str | None:
        """Return the topic that ``name`` collides with, or None."""
        key = colliding_key(name)
        if key is None:
            return None
        taken = self._created.get(key) or self._existing.get(key)
        return taken if taken != name else None

    def take(self, name: str) -> None:
        """Mark the name of a topic that this request created as taken."""
        key = colliding_key(name)
        if key is not None:
            self._created[key] = name
