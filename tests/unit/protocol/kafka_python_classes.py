"""The messages that kafka-python has, by name."""

import importlib
from functools import cache
from typing import Any
from warnings import catch_warnings

THEIR_PACKAGES = (
    "admin",
    "consumer",
    "metadata",
    "producer",
    "sasl",
    "consumer.group",
    "consumer.metadata",
)


@cache
def their_class(name: str) -> Any:
    """Return their class of a message, None where they have none."""
    for package in THEIR_PACKAGES:
        with catch_warnings(action="ignore", category=DeprecationWarning):
            # They read their schemas by a deprecated function.
            module = importlib.import_module(f"kafka.protocol.{package}")
        found = getattr(module, name, None)
        if found is not None:
            return found
    return None
