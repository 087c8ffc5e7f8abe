"""The authorizer of a node, for the pipelines of its listeners and for its own controller.

Decides which gate a request goes through. A Produce to one topic without a transaction needs one
decision. If it is allowed, the gate is skipped. For a request from the cache of repeated requests
(``handlers.produce.repeated``), that permission is kept per host until the ACLs change.

Follows the ACLs of the metadata. Changed ACLs apply before the response to the change is sent. The
ACLs count as known once this node has all metadata that is known to be committed.
"""

from collections.abc import Callable, Mapping
from logging import DEBUG
from typing import TYPE_CHECKING, Any

from log_service.broker.authorization.access import TOPIC, Access
from log_service.broker.authorization.decision_log import DecisionLog
from log_service.broker.authorization.gate_shapes import WRITE, Question
from log_service.broker.handlers.produce.repeated import RepeatedCall
from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Api, Call, Gate, Side
from log_service.common.access import Admission, Principal
from log_service.common.types import TopicId
from log_service.config.views import AuditConfig, AuthorizerConfig, NodeConfig
from log_service.controller.caller import Caller
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.schema import Message
from log_service.security.acls.authorizer import AclAuthorizer
from log_service.security.acls.index import NO_INDEX

if TYPE_CHECKING:
    from log_service.broker.authorization.audit_queue import AuditQueue
    from log_service.broker.authorization.audit_trail import AuditTrail
    from log_service.common.env import NodeEnv

PRODUCE = ApiKey.PRODUCE


class NodeAuthorizer:
    """Authorizes the requests of this node.

    ``high_watermark`` returns the offset up to which the metadata log is known to be committed.
    ``trail`` is the audit log, or None if there is none. The node starts it, and flushes it when it
    stops.
    """

    def __init__(
        self,
        env: "NodeEnv",
        config: NodeConfig,
        access: AuthorizerConfig,
        image: Callable[[], MetadataImage],
        high_watermark: Callable[[], int],
    ) -> None:
        self._config = config
        self._image = image
        self._high_watermark = high_watermark
        self.acls = AclAuthorizer(access.super_users, is_open=access.is_open)
        self.trail = None if access.audit is None else _new_trail(env, access.audit)
        self.log = DecisionLog(env.clock.wall_ms, self.trail)

    def __repr__(self) -> str:
        return f"<NodeAuthorizer {self.acls!r} {self.log!r}>"

    @property
    def allowed_count(self) -> int:
        """Number of operations that were allowed since the node started."""
        return self.log.allowed_count

    @property
    def denied_count(self) -> int:
        """Number of operations that were denied since the node started."""
        return self.log.denied_count

    @property
    def acl_count(self) -> int:
        """Number of ACLs."""
        return self.acls.index.count

    @property
    def audit_queues(self) -> "Mapping[str, AuditQueue]":
        """The queues of the audit log by destination.

        Empty if the log has neither file nor topic.
        """
        return {} if self.trail is None else self.trail.queues

    # ACLs

    def on_image(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply changed ACLs."""
        if delta.changed_acls:
            self.acls.follow(image.access.acl_index or NO_INDEX)
        if not self.acls.is_loaded and 0 < self._high_watermark() <= image.offset + 1:
            self.acls.is_loaded = True

    # Requests

    def authorize(self, call: Call) -> Admission | None:
        """Authorize a request by the gate of its API. See ``broker.call.Authorizer``."""
        connection = call.connection
        if isinstance(call, RepeatedCall):
            clearance = call.known.clearance
            if (
                clearance.version is self.acls.version
                and connection.peer_host in clearance.hosts
                and not self.log.has_level(DEBUG)
            ):
                self.log.allowed_count += 1
                return None
        api = call.route.api
        if api.key is PRODUCE and self._may_produce(call):
            return None
        access = call.access = self._access_of(connection.principal, connection.peer_host, api)
        gate = api.gates.get(call.route.side)
        return (
            None
            if gate is None
            else self._ask(gate, api, call.version, call.request, call.route.response_type, access)
        )

    def admit(
        self, request: Message, response_type: type[Message], caller: Caller
    ) -> Admission | None:
        """Authorize a client's request to the controller of this process.

        Raises as ``authorize``.
        """
        api = REGISTRY[ApiKey(request.SCHEMA.key)]  # type: ignore[arg-type]  # a whole message has a key
        access = self._access_of(caller.principal, caller.host, api)
        gate = api.gates.get(Side.CONTROLLER)
        return (
            None
            if gate is None
            else self._ask(gate, api, caller.version, request, response_type, access)
        )

    def _access_of(self, principal: Principal, host: str, api: Api) -> Access:
        askers = self.acls.rights_of(principal, host).askers
        access: Access | None = askers.get(api.key)
        if access is None:
            access = askers[api.key] = Access(self.acls, self.log, principal, host, api)
        return access

    def _ask(  # noqa: PLR0917 - the parts of a question
        self,
        gate: Gate,
        api: Api,
        version: int,
        request: Any,
        response_type: type[Message],
        access: Access,
    ) -> Admission | None:
        question = Question(
            api=api,
            version=version,
            request=request,
            response_type=response_type,
            access=access,
            image=self._image(),
            config=self._config,
        )
        return gate(question)

    def _may_produce(self, call: Call) -> bool:
        """Return whether a request writes to one topic without a transaction, and is allowed.

        The gate handles everything else, including refusals.
        """
        request = call.request
        if (
            request.transactional_id is not None
            or len(request.topic_data) != 1
            or not self.acls.is_loaded
        ):
            return False
        (topic,) = request.topic_data
        name = topic.name
        if not name:
            found = self._image().topics.by_id.get(TopicId(topic.topic_id))
            if found is None:
                return False
            name = found.name
        connection = call.connection
        decision = self.acls.rights_of(connection.principal, connection.peer_host).decide(
            WRITE, TOPIC, name
        )
        if not decision.is_allowed:
            return False
        log = self.log
        if log.has_level(DEBUG):
            access = self._access_of(connection.principal, connection.peer_host, call.route.api)
            log.note_wanted(access, decision, WRITE, TOPIC, name)
        else:
            log.allowed_count += 1
        if isinstance(call, RepeatedCall):
            call.known.clearance.add(self.acls.version, connection.peer_host)
        return True


def _new_trail(env: "NodeEnv", audit: AuditConfig) -> "AuditTrail":
    from log_service.broker.authorization.audit_trail import (  # noqa: PLC0415 - many nodes have none
        AuditTrail,
    )

    return AuditTrail(env, audit)
