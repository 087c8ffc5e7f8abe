"""The authorizer on the metrics page: decisions, the number of ACLs, and the audit log.

Decides the names. Apache Kafka's StandardAuthorizer shows rates per minute and the count of ACLs.
Both have the same names here. The counters from which the rates are computed are shown, too. A node
without an authorizer shows none of them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from log_service.metrics.exposition import Family, labels

if TYPE_CHECKING:
    from log_service.broker.authorization.audit_queue import AuditQueue

PREFIX = "kafka_server_authorizer"
AUDIT_PREFIX = "tidelog_audit_log"
SECONDS_PER_MINUTE = 60

PerSecond = Callable[[str, int], float]
"""Returns how fast a count grew lately, per second, for a unique name and the count's value."""


class Decided(Protocol):
    """An authorizer, as the object that counts decisions and ACLs."""

    @property
    def allowed_count(self) -> int:
        """Number of decisions that allowed an operation."""

    @property
    def denied_count(self) -> int:
        """Number of decisions that denied an operation."""

    @property
    def acl_count(self) -> int:
        """Number of ACLs."""

    @property
    def audit_queues(self) -> "Mapping[str, AuditQueue]":
        """The queues of the audit log by destination.

        Empty if the log has neither file nor topic.
        """


def authorizer_families(decided: Decided | None, per_second: PerSecond) -> Iterator[Family]:
    """Yield the families of the authorizer. A node without one yields none."""
    if decided is None:
        return
    allowed, denied = decided.allowed_count, decided.denied_count
    for name, text, value in (
        ("authorization_request", "Decisions", allowed + denied),
        ("authorization_allowed", "Decisions that allowed an operation", allowed),
        ("authorization_denied", "Decisions that denied an operation", denied),
    ):
        yield Family(
            name=f"{PREFIX}_{name}_total",
            type="counter",
            help=f"{text}.",
            samples=[("", "", value)],
        )
        rate = per_second(name, value) * SECONDS_PER_MINUTE
        yield Family(
            name=f"{PREFIX}_{name}_rate_per_minute",
            type="gauge",
            help=f"{text} in a minute, lately.",
            samples=[("", "", rate)],
        )
    yield Family(
        name=f"{PREFIX}_acls_total_count",
        type="gauge",
        help="ACLs in the metadata.",
        samples=[("", "", decided.acl_count)],
    )
    queues = decided.audit_queues
    if not queues:
        return
    for name, text, counts in (
        (
            "written",
            "Decisions that were written into the audit log.",
            {to: queue.written_count for to, queue in queues.items()},
        ),
        (
            "dropped",
            "Decisions that are missing in the audit log.",
            {to: queue.dropped_count for to, queue in queues.items()},
        ),
        (
            "dropped_denied",
            "Denials that are missing in it.",
            {to: queue.dropped_denied_count for to, queue in queues.items()},
        ),
    ):
        samples = [("", labels({"to": to}), count) for to, count in counts.items()]
        yield Family(
            name=f"{AUDIT_PREFIX}_{name}_total", type="counter", help=text, samples=samples
        )
