"""What the client of one request may do, for the gate and the handler of the request.

Decides nothing by itself: it asks by the rights of the moment, so that a request that waits is decided on by the ACLs as they are then, and
hands each decision to the decision log. It knows nothing of a request but its API, so that all requests of a caller for one API share it.

There are three ways to ask. ``may`` is for what the request wants: a denial is a refusal, and is logged. ``could`` is for what is left out
silently where it is denied, or may be allowed by something else. ``bits`` is for clients that want to know.
"""

from collections import Counter
from collections.abc import Iterable
from logging import DEBUG
from typing import Final

from log_service.broker.authorization.decision_log import DecisionLog
from log_service.broker.call import Api
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
"""What is told where an operation on such a resource is denied."""
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = AclResource.TOPIC, AclResource.GROUP, AclResource.CLUSTER, AclResource.TRANSACTIONAL_ID
ANY_NAME: Final = "hardcode"
"""The topic that Apache Kafka asks for where any topic will do; its audit log shows the name."""


class Access:
    """What one principal on one host may do, in requests of one API.

    ``_held`` are the rights of the moment in which this was made. Once the ACLs are others, the authorizer is asked for the new rights each
    time; the next request gets another ``Access``.
    """

    __slots__ = ("_api", "_authorizer", "_held", "_log", "host", "principal")

    def __init__(self, authorizer: AclAuthorizer, log: DecisionLog, principal: Principal, host: str, api: Api) -> None:
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
            text = "this node does not know the ACLs yet, and until it does only super users are let in; try again"
            raise KafkaError(ErrorCode.NOT_CONTROLLER, text)
        return rights

    def may(self, operation: AclOperation, resource: AclResource, name: str, count: int = 1) -> bool:
        """Whether what the request wants is allowed. ``count`` is how often the request names the resource.

        Raises:
            KafkaError: NOT_CONTROLLER, the ACLs are not known yet.
        """
        rights, authorizer, log = self._held, self._authorizer, self._log
        if rights.version is not authorizer.version or not authorizer.is_loaded:
            rights = self._rights()
        decision = rights.decide(operation, resource, name)
        if decision.is_allowed and not log.has_level(DEBUG):
            log.allowed_count += 1  # all that taking note of it would do
            return True
        log.note_wanted(self, decision, operation, resource, name, count)
        return decision.is_allowed

    def could(self, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """Whether something is allowed that the request gets on without. Raises as ``may``."""
        decision = self._rights().decide(operation, resource, name)
        self._log.note_optional(self, decision, operation, resource, name)
        return decision.is_allowed

    def may_cluster(self, operation: AclOperation) -> bool:
        """Whether what the request wants of the cluster is allowed. Raises as ``may``."""
        return self.may(operation, CLUSTER, CLUSTER_NAME)

    def could_cluster(self, operation: AclOperation) -> bool:
        """Whether something is allowed on the cluster that the request gets on without. Raises as ``may``."""
        return self.could(operation, CLUSTER, CLUSTER_NAME)

    def may_somewhere(self, operation: AclOperation, resource: AclResource) -> bool:
        """Whether the operation is allowed on some resource of a type (KIP-679). Raises as ``may``."""
        return self.could(operation, resource, ANY_NAME) or self._rights().may_somewhere(operation, resource)

    def allowed(self, operation: AclOperation, resource: AclResource, names: Iterable[str]) -> set[str]:
        """Return those of the names that a request wants, however often it names each, that are allowed. Raises as ``may``."""
        return {name for name, count in Counter(names).items() if self.may(operation, resource, name, count)}

    def visible(self, operation: AclOperation, resource: AclResource, names: Iterable[str]) -> set[str]:
        """Return those of the names that are allowed; the others are left out silently. Raises as ``may``."""
        return {name for name in set(names) if self.could(operation, resource, name)}

    def require(self, operation: AclOperation, resource: AclResource, name: str) -> None:
        """Refuse the request as a whole, unless the operation is allowed.

        Raises:
            KafkaError: the code that belongs to the resource; and as ``may``.
        """
        if not self.may(operation, resource, name):
            raise refusal(operation, resource)

    def bits(self, resource: AclResource, name: str, operations: Iterable[AclOperation]) -> int:
        """Return which of the operations are allowed, as bits (KIP-430). Raises as ``may``."""
        rights, found = self._rights(), 0
        for operation in operations:
            decision = rights.decide(operation, resource, name)
            self._log.note_probe(self, decision, operation, resource, name)
            found |= decision.is_allowed << operation
        return found


def refusal(operation: AclOperation, resource: AclResource) -> KafkaError:
    """Return the error of an operation that is denied. It names no resource: the client did, and others may read its log."""
    return KafkaError(REFUSALS[resource], f"{operation.name} on the {resource.name.lower().replace('_', ' ')} is not allowed")
