"""Rows name what each API of the registry needs.

A row is a request, the rights that it takes, and the response when one of them is missing.

The rights and codes are those of Apache Kafka 4.3. Each row stands for one way to ask: an API may
have several.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Side
from log_service.common.access import AclOperation
from log_service.protocol.api_versions import ApiKey
from tests.unit.broker.authorization.acl_story import (
    CLUSTER,
    CLUSTER_NAME,
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    Right,
)

READ, WRITE, CREATE, DELETE, ALTER = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
)
DESCRIBE, CLUSTER_ACTION, IDEMPOTENT_WRITE = (
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.IDEMPOTENT_WRITE,
)
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
NO_ID = UUID(int=0)
CODES = {TOPIC: 29, GROUP: 30, CLUSTER: 31, TRANSACTIONAL_ID: 53}


@dataclass(frozen=True, slots=True, kw_only=True)
class Things:
    """These are the things that a request names."""

    topic: str = "t"
    topic_id: UUID = NO_ID
    group: str = "g"
    transactional_id: str = "x"
    member_id: str = "m"


def on_topic(operation: AclOperation, name: str = "t") -> Right:
    return (operation, TOPIC, name)


def on_group(operation: AclOperation) -> Right:
    return (operation, GROUP, "g")


def on_cluster(operation: AclOperation) -> Right:
    return (operation, CLUSTER, CLUSTER_NAME)


def on_id(operation: AclOperation) -> Right:
    return (operation, TRANSACTIONAL_ID, "x")


Build = Callable[[Things, int], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One way to ask an API. ``needs`` are the rights that it takes together; ``instead`` are
    rights of which one takes their place.

    A request without all of them is refused with the code that belongs to what is missing, or with
    ``code``. ``hidden`` is a text that the response shows only to those who have them all, where
    nothing is refused. ``names`` says whether what is asked about may be missing.
    """

    key: ApiKey
    build: Build
    needs: tuple[Right, ...]
    instead: tuple[Right, ...] = ()
    sides: frozenset[Side] = frozenset({Side.BROKER})
    versions: tuple[int, ...] = ()
    code: int | None = None
    hidden: str | None = None
    names: bool = False
    label: str = ""

    def __str__(self) -> str:
        return f"{self.key.name}{'-' if self.label else ''}{self.label}"

    @property
    def all_versions(self) -> tuple[int, ...]:
        """The lowest and the highest version, or those of the row."""
        spec = REGISTRY[self.key].spec
        return self.versions or tuple(dict.fromkeys((spec.min_version, spec.max_version)))

    def code_of(self, right: Right) -> int:
        """Return the error code that a response names when a right is missing."""
        return CODES[right[1]] if self.code is None else self.code


BOTH = frozenset(Side)
CONTROLLER = frozenset({Side.CONTROLLER})


def row(key: ApiKey, build: Build, *needs: Right, **others: Any) -> Row:
    return Row(key=key, build=build, needs=needs, **others)
