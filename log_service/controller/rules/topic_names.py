"""Which names topics may have.

Decides by Kafka's rules: letters, digits, dot, underscore and dash, at most 249 of them, because a partition's directory is named after its
topic; and no two names that differ only in dots and underscores, because metrics write both as an underscore.
"""

import re

from log_service.common.errors import ErrorCode, KafkaError
from log_service.metadata.image import TopicsImage, colliding_key

MAX_NAME_LENGTH = 249
NAME = re.compile(r"[a-zA-Z0-9._-]+")


def validate_topic_name(name: str) -> None:
    """Check a name by itself.

    Raises:
        KafkaError: INVALID_TOPIC_EXCEPTION.
    """
    if not name:
        fault = "a topic's name must not be empty"
    elif name in {".", ".."}:
        fault = f"a topic must not be named {name!r}"
    elif len(name) > MAX_NAME_LENGTH:
        fault = f"the name has {len(name)} characters, at most {MAX_NAME_LENGTH} are allowed"
    elif NAME.fullmatch(name) is None:
        fault = f"{name!r} holds other characters than ASCII letters, digits, '.', '_' and '-'"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)


class TakenNames:
    """The names of topics by what they collide on: those that exist, and those that a request has just created."""

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
        """Count a name that was just given."""
        key = colliding_key(name)
        if key is not None:
            self._created[key] = name
