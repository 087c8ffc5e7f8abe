"""Whether a new topic may have its name.

Decides by Kafka's rules: the name is one that a topic can have, and no two names differ only in dots and underscores, because metrics write
both as an underscore.
"""

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.topic_names import topic_name_fault
from log_service.metadata.image import TopicsImage, colliding_key


def validate_topic_name(name: str) -> None:
    """Check a name by itself.

    Raises:
        KafkaError: INVALID_TOPIC_EXCEPTION.
    """
    fault = topic_name_fault(name)
    if fault is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)


class TakenNames:
    """Names of topics by the key on which they collide.

    They exist, or the same request has just created them.
    """

    def __init__(self, topics: TopicsImage) -> None:
        self._existing = topics.by_colliding_key
        self._created: dict[str, str] = {}

    def collision(self, name: str) -> str | None:
        """Return the topic that ``name`` collides with, None where there is none."""
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
