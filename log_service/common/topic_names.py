"""Decides which names topics may have, and which topics brokers reserve for themselves.

The rules are Kafka's: letters, digits, dot, underscore and dash, at most 249 characters, because a
partition's directory is named after its topic. Only the metadata knows whether a name is taken.
"""

import re

from log_service.common.types import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)

INTERNAL_TOPICS = frozenset(
    {GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC}
)
"""The topics that brokers keep for themselves.

Clients may not write to them. Their loss would be the loss of every group and transaction.
"""

MAX_TOPIC_NAME_LENGTH = 249

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_fault(name: str) -> str | None:
    """Return the reason why a topic cannot have this name, or None if it can."""
    if not name:
        return "a topic's name must not be empty"
    if name in {".", ".."}:
        return f"a topic must not be named {name!r}"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"the name has {len(name)} characters, at most {MAX_TOPIC_NAME_LENGTH} are allowed"
    if _NAME.fullmatch(name) is None:
        return f"{name!r} holds other characters than ASCII letters, digits, '.', '_' and '-'"
    return None
