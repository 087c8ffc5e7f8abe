"""Tells the gates and handlers of an API what a client may do.

``Access`` has a principal, a host and an API, and no request. So all requests of a client for one
API share it. The authorizer decides by the newest ACLs, so a request that has waited is authorized
by the ACLs at the end of its wait. Each decision is passed to the decision log.

There are three kinds of methods. ``may`` is for operations that the request wants. Its denial is
a refusal and is logged. ``could`` is for resources that are left out silently if denied, and for
permissions with an alternative. ``bits`` is for clients that ask for their permissions.
"""

from collections import Counter
from collections.abc import Iterable
from logging import DEBUG
from typing import Final

from log_service.broker.authorization.decision_log import DecisionLog
from log_service.broker.requests.call import Api
from log_service.common.access import AclOperation, AclResource, Principal
from log_service.common.errors import ErrorCode, KafkaError
from log_service.security.acls.authorizer import AclAuthorizer, Rights
from log_service.security.acls.hosts import java_host
from log_service.security.acls.values import CLUSTER_NAME

REFUSALS: Final = {
    AclResource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    AclResource.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    AclResource.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error code for a denied operation, by the type of its resource."""
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = (
    AclResource.TOPIC,
    AclResource.GROUP,
    AclResource.CLUSTER,
    AclResource.TRANSACTIONAL_ID,
)
ANY_NAME: Final = "hardcode"
"""The topic name that Apache Kafka checks if any topic will do. Its audit log shows the name."""


class Access:
    """The permissions of one principal on one host, in requests of one API.

    ``_held`` are the rights by the ACLs at construction. Once the ACLs have changed, each method
    asks the authorizer for the new rights, and the next request gets another ``Access``.
    """

    __slots__ = ("_api", "_authorizer", "_held", "_log", "host", "principal")

    def __init__(
        self, authorizer: AclAuthorizer, log: DecisionLog, principal: Principal, host: str, api: Api
    ) -> None:
        self._authorizer = authorizer
        self._held = authorizer.rights_of(principal, host)
        self._log = log
        self.principal = principal
        self.host = host
        self._api = api

    def __repr__(self) -> str:
        return f"<Access of {self.principal} on {self.host} in {self.api_name}>"

    @property
    def api_name(self) -> str:
        """The name of the request's API."""
        return self._api.spec.name

    @property
    def written_host(self) -> str:
        """The host as ACLs and the audit log write it."""
        return java_host(self.host)

    def _rights(self) -> Rights:
        authorizer, rights = self._authorizer, self._held
        if rights.version is not authorizer.version:
            rights = authorizer.rights_of(self.principal, self.host)
        if not authorizer.is_loaded and not rights.is_super:
            text = (
                "this node does not know the ACLs yet, and until it does only super users are let"
                " in; try again"
            )
            raise KafkaError(ErrorCode.NOT_CONTROLLER, text)
        return rights

    def may(
        self, operation: AclOperation, resource: AclResource, name: str, count: int = 1
    ) -> bool:
        """Return whether an operation that the request wants is allowed.

        ``count`` is how often the request names the resource.

        Raises:
            KafkaError: NOT_CONTROLLER, the ACLs are not known yet.
        """
        rights, authorizer, log = self._held, self._authorizer, self._log
        if rights.version is not authorizer.version or not authorizer.is_loaded:
            rights = self._rights()
        decision = rights.decide(operation, resource, name)
        if decision.is_allowed and not log.has_level(DEBUG):
            log.allowed_count += 1  # the only effect of note_wanted without a log line
            return True
        log.note_wanted(self, decision, operation, resource, name, count)
        return decision.is_allowed

    def could(self, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """Return whether an optional operation is allowed.

        The request does not depend on it, so a denial is no refusal. Raises as ``may``.
        """
        decision = self._rights().decide(operation, resource, name)
        self._log.note_optional(self, decision, operation, resource, name)
        return decision.is_allowed

    def may_cluster(self, operation: AclOperation) -> bool:
        """Return whether an operation that the request wants on the cluster is allowed.

        Raises as ``may``.
        """
        return self.may(operation, CLUSTER, CLUSTER_NAME)

    def could_cluster(self, operation: AclOperation) -> bool:
        """Return whether an optional operation on the cluster is allowed. Raises as ``may``."""
        return self.could(operation, CLUSTER, CLUSTER_NAME)

    def may_somewhere(self, operation: AclOperation, resource: AclResource) -> bool:
        """Return whether the operation is allowed on at least one resource of a type (KIP-679).

        Raises as ``may``.
        """
        return self.could(operation, resource, ANY_NAME) or self._rights().may_somewhere(
            operation, resource
        )

    def allowed(
        self, operation: AclOperation, resource: AclResource, names: Iterable[str]
    ) -> set[str]:
        """Return the allowed ones among the names that a request wants.

        A repeated name is decided once, and the decision log gets the number of repetitions. Raises
        as ``may``.
        """
        return {
            name
            for name, count in Counter(names).items()
            if self.may(operation, resource, name, count)
        }

    def visible(
        self, operation: AclOperation, resource: AclResource, names: Iterable[str]
    ) -> set[str]:
        """Return the allowed ones of the names.

        The others are left out silently. Raises as ``may``.
        """
        return {name for name in set(names) if self.could(operation, resource, name)}

    def require(self, operation: AclOperation, resource: AclResource, name: str) -> None:
        """Refuse the whole request, unless the operation is allowed.

        Raises:
            KafkaError: the code that belongs to the resource, and as ``may``.
        """
        if not self.may(operation, resource, name):
            raise refusal(operation, resource)

    def bits(self, resource: AclResource, name: str, operations: Iterable[AclOperation]) -> int:
        """Return those of ``operations`` that are allowed, as bits (KIP-430).

        Raises as ``may``.
        """
        rights, found = self._rights(), 0
        for operation in operations:
            decision = rights.decide(operation, resource, name)
            self._log.note_probe(self, decision, operation, resource, name)
            found |= decision.is_allowed << operation
        return found


def refusal(operation: AclOperation, resource: AclResource) -> KafkaError:
    """Return the error of a denied operation.

    It names no resource, because the client knows it and others may read the client's log.
    """
    return KafkaError(
        REFUSALS[resource],
        f"{operation.name} on the {resource.name.lower().replace('_', ' ')} is not allowed",
    )
