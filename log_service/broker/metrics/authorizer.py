"""The authorizer on the metrics page: how many decisions allowed and denied something, and how many ACLs there are.

Decides the names, which are those of Apache Kafka's StandardAuthorizer as counters. A node without an authorizer shows none of them.
"""

from collections.abc import Iterator
from typing import Protocol

from log_service.metrics.exposition import Family

PREFIX = "kafka_server_authorizer"


class Decided(Protocol):
    """What an authorizer has done."""

    @property
    def allowed_count(self) -> int:
        """How often something was allowed."""

    @property
    def denied_count(self) -> int:
        """How often something was denied."""

    @property
    def acl_count(self) -> int:
        """How many ACLs there are."""


def authorizer_families(decided: Decided | None) -> Iterator[Family]:
    """Yield what was decided, where there is an authorizer."""
    if decided is None:
        return
    for name, text, value in (
        ("authorization_allowed_total", "Decisions that allowed an operation.", decided.allowed_count),
        ("authorization_denied_total", "Decisions that denied an operation.", decided.denied_count),
    ):
        yield Family(name=f"{PREFIX}_{name}", type="counter", help=text, samples=[("", "", value)])
    yield Family(name=f"{PREFIX}_acls_total_count", type="gauge", help="ACLs in the metadata.", samples=[("", "", decided.acl_count)])
