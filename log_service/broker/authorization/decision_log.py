"""Counts decisions, and writes them into the audit log ``kafka.authorizer.logger``.

Decides the level of each decision, as Apache Kafka does. Wanted operations are logged at INFO if
denied, and at DEBUG if allowed. Optional ones are logged at TRACE if denied, and at DEBUG if
allowed. If a client only asks for its permissions, the decisions are logged at TRACE. A line is
formatted only if the logger has its level. If the audit log has a file, the logger's own handlers
get no line, as with Kafka's ``authorizerAppender``.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from log_service.common.access import NODE_ADVICE, AclOperation, AclResource, Principal
from log_service.common.log_lines import escaped
from log_service.common.quiet_log import QuietLogger
from log_service.security.acls.decision import Decision
from log_service.security.audit import LOGGER_NAME, AuditEntry

if TYPE_CHECKING:
    from log_service.broker.authorization.audit_trail import AuditTrail

TRACE: Final = 5
LINE: Final = "%s"
STRANGER_INTERVAL_MS: Final = 600_000
"""The interval at which the node's log names a client whose inter-broker requests are denied."""
LEVEL_NAMES: Final = {TRACE: "TRACE", logging.DEBUG: "DEBUG", logging.INFO: "INFO"}


logger = logging.getLogger(__name__)


class Asker(Protocol):
    """A client that needs a decision: a principal on a host, in a request of an API."""

    @property
    def principal(self) -> Principal:
        """The caller's principal."""

    @property
    def written_host(self) -> str:
        """The host as the audit log writes it."""

    @property
    def api_name(self) -> str:
        """The name of the request's API."""


class DecisionLog:
    """Counts the decisions of a node, and logs them. ``wall_ms`` returns the time for a line."""

    __slots__ = (
        "_logger",
        "_quiet",
        "_trail",
        "_wall_ms",
        "allowed_count",
        "denied_count",
        "has_level",
    )

    def __init__(self, wall_ms: Callable[[], int], trail: "AuditTrail | None" = None) -> None:
        self._logger = logging.getLogger(LOGGER_NAME)
        self._wall_ms = wall_ms
        self._trail = trail
        self._quiet = QuietLogger(logger, wall_ms, STRANGER_INTERVAL_MS)
        self.has_level = self._logger.isEnabledFor
        """Whether decisions of a level are written.

        At DEBUG these include every allowed operation.
        """
        self.allowed_count = 0
        self.denied_count = 0

    def __repr__(self) -> str:
        return f"<DecisionLog allowed={self.allowed_count} denied={self.denied_count}>"

    def note_wanted(  # noqa: PLR0917 - the parts of a line
        self,
        asker: Asker,
        decision: Decision,
        operation: AclOperation,
        resource: AclResource,
        name: str,
        count: int = 1,
    ) -> None:
        """Note a decision on an operation that a request wants."""
        level = logging.DEBUG if decision.is_allowed else logging.INFO
        if operation is AclOperation.CLUSTER_ACTION and not decision.is_allowed:
            self._name_stranger(asker)
        self._note(level, asker, decision, operation, resource, name, count)

    def note_optional(
        self,
        asker: Asker,
        decision: Decision,
        operation: AclOperation,
        resource: AclResource,
        name: str,
    ) -> None:
        """Note a decision on an operation that a request does not depend on."""
        level = logging.DEBUG if decision.is_allowed else TRACE
        self._note(level, asker, decision, operation, resource, name, 1)

    def note_probe(
        self,
        asker: Asker,
        decision: Decision,
        operation: AclOperation,
        resource: AclResource,
        name: str,
    ) -> None:
        """Note a decision that only tells a client its permissions, and refuses nothing."""
        self._note(TRACE, asker, decision, operation, resource, name, 1)

    def _note(  # noqa: PLR0917 - as above
        self,
        level: int,
        asker: Asker,
        decision: Decision,
        operation: AclOperation,
        resource: AclResource,
        name: str,
        count: int,
    ) -> None:
        if decision.is_allowed:
            self.allowed_count += 1
        else:
            self.denied_count += 1
        if self.has_level(level):
            self._write(
                level,
                AuditEntry(
                    wall_ms=self._wall_ms(),
                    level=LEVEL_NAMES[level],
                    principal=asker.principal,
                    decision=decision,
                    operation=operation,
                    host=asker.written_host,
                    resource=resource,
                    name=name,
                    api=asker.api_name,
                    count=count,
                ),
            )

    def _name_stranger(self, asker: Asker) -> None:
        """Log a client whose inter-broker request was denied.

        It may be a node of this cluster with the wrong user. Such a node cannot go on, and cannot
        report the error itself.
        """
        who = escaped(str(asker.principal)), escaped(asker.written_host)
        text = "%s from %s was refused %s. If it is a node of this cluster: %s"
        self._quiet.warning(who, text, *who, asker.api_name, NODE_ADVICE)

    def _write(self, level: int, entry: AuditEntry) -> None:
        if self._trail is not None:
            self._trail.note(entry)
        if self._trail is None or not self._trail.has_file:
            self._logger.log(level, LINE, entry.line())
