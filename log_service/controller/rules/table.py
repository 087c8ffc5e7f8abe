"""The only table of the controller's rules: one row for each message that it decides on.

A row names a rule, which is a plain function of another module of this package, and passes it the
arguments that it needs. A message without a row is not decided by the controller. The exception is
BrokerHeartbeat, which ``controller`` passes to its rule together with the broker's session.

Rules about brokers and topics are imported with the node. The others are imported, with their
messages, on first use, because a node starts and serves without most of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from log_service.common.types import NodeId
from log_service.config.views import QuotaWindows, TokenConfig, TopicDefaults
from log_service.controller.caller import Caller
from log_service.controller.rules.brokers import register_broker, unregister_broker
from log_service.controller.rules.partitions import Partitions
from log_service.controller.rules.topics import (
    ChargePartitions,
    TopicRules,
    create_topics,
    delete_topics,
)
from log_service.metadata.image import MetadataImage
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.broker_registration import BrokerRegistrationRequest
from log_service.protocol.schema import Message
from log_service.protocol.stored.metadata_records import MetadataRecord

if TYPE_CHECKING:
    from log_service.security.delegation import TokenIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """The part of the node's configuration that the controller uses.

    ``static_texts`` has the values of the node's properties file by key.
    ``leader_balance_interval_ms``: interval at which partitions return to their preferred leaders.
    ``unclean_election_interval_ms``: interval at which partitions without a leader get an unclean
    leader, if their topics allow it. None: never. ``death_grace_ms``: how long a broker whose
    connection ended must refuse new connections before it counts as dead. With 0 or less, only the
    session decides.
    """

    node_id: NodeId
    cluster_id: str
    topics: TopicDefaults = field(default_factory=TopicDefaults)
    broker_session_timeout_ms: int = 9_000
    death_grace_ms: int = 0
    max_idle_interval_ms: int = 0
    leader_balance_interval_ms: int | None = None
    unclean_election_interval_ms: int | None = None
    static_texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    mutation_windows: QuotaWindows = field(default_factory=QuotaWindows)
    tokens: TokenConfig = field(default_factory=TokenConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The arguments of rules besides the metadata and the request.

    They are the node's configuration, new ids, the brokers with a live session, the brokers that
    are only presumed alive, the quota for created and deleted partitions, the wall-clock time, the
    client, and the delegation tokens.
    """

    config: ControllerConfig
    new_id: Callable[[], UUID]
    has_live_session: Callable[[NodeId], bool]
    charge_partitions: ChargePartitions
    presumed: frozenset[NodeId] = frozenset()
    wall_ms: int = 0
    caller: Caller | None = None
    """The client that sent the request, None for a node's own request."""
    token_index: "Callable[[], TokenIndex | None]" = lambda: None
    """Returns the delegation tokens by HMAC. None: the cluster has no secret for tokens."""

    def partitions(self, image: MetadataImage) -> Partitions:
        """Return the partitions of a decision on ``image``."""
        config = self.config
        return Partitions(
            image, node_id=config.node_id, static_texts=config.static_texts, presumed=self.presumed
        )

    @property
    def topic_rules(self) -> TopicRules:
        """Return the arguments of rules about topics."""
        return TopicRules(
            defaults=self.config.topics,
            static_texts=self.config.static_texts,
            new_id=self.new_id,
            charge=self.charge_partitions,
        )


Decided = tuple[Sequence[MetadataRecord], Message]
"""The records of a decision, and the response."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table. ``decide`` raises KafkaError if the whole request is refused."""

    decide: Callable[[MetadataImage, Any, Surroundings], Decided]


@cache
def imported_rule(module: str, name: str) -> Callable[..., Any]:
    """Import a rule's module on the first call, and return the rule."""
    rule: Callable[..., Any] = getattr(
        import_module(f"log_service.controller.rules.{module}"), name
    )
    return rule


def _on_demand(
    module: str, name: str, pick: Callable[[Surroundings], tuple[Any, ...]] = lambda _: ()
) -> Rule:
    """Return the row of a rule that is imported on first use.

    ``pick`` returns the rule's arguments besides metadata and request.
    """
    return Rule(
        lambda image, request, around: imported_rule(module, name)(image, request, *pick(around))
    )


def _on_partitions(module: str, name: str) -> Rule:
    """Return the row of a rule that changes partitions. It is imported on first use."""
    return Rule(
        lambda image, request, around: imported_rule(module, name)(
            around.partitions(image), request
        )
    )


def _register_broker(
    image: MetadataImage, request: BrokerRegistrationRequest, around: Surroundings
) -> Decided:
    is_alive = around.has_live_session(NodeId(request.broker_id))
    return register_broker(
        around.partitions(image),
        request,
        cluster_id=around.config.cluster_id,
        has_live_session=is_alive,
    )


def _list_reassignments(image: MetadataImage, request: Any, _: Surroundings) -> Decided:
    return (), imported_rule("reassignments", "list_partition_reassignments")(image, request)


def _static_texts(around: Surroundings) -> tuple[Mapping[str, str]]:
    return (around.config.static_texts,)


def _for_configs(around: Surroundings) -> tuple[Mapping[str, str], Caller | None]:
    return around.config.static_texts, around.caller


def _on_tokens(name: str) -> Rule:
    """Return the row of a rule about delegation tokens. It is imported on first use."""

    def decide(image: MetadataImage, request: Any, around: Surroundings) -> Decided:
        assert around.caller is not None, "clients alone ask for tokens"
        new_id = imported_rule("delegation_tokens", "token_id_of")(around.new_id())
        rules = imported_rule("delegation_tokens", "DelegationTokenRules")(
            config=around.config.tokens,
            caller=around.caller,
            wall_ms=around.wall_ms,
            new_id=new_id,
            index=around.token_index(),
        )
        decided: Decided = imported_rule("delegation_tokens", name)(image, request, rules)
        return decided

    return Rule(decide)


RULES: Mapping[int, Rule] = MappingProxyType(
    {
        # What brokers and controllers say of themselves
        ApiKey.BROKER_REGISTRATION: Rule(_register_broker),
        ApiKey.UNREGISTER_BROKER: Rule(
            lambda image, request, around: unregister_broker(around.partitions(image), request)
        ),
        ApiKey.CONTROLLER_REGISTRATION: _on_demand("controllers", "register_controller"),
        ApiKey.ALLOCATE_PRODUCER_IDS: _on_demand("producer_ids", "allocate_producer_ids"),
        # Partitions
        ApiKey.ALTER_PARTITION: _on_partitions("alter_partition", "alter_partition"),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: _on_partitions("directories", "assign_replicas"),
        ApiKey.ELECT_LEADERS: _on_partitions("elections", "elect_leaders"),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _on_partitions(
            "reassignments", "alter_partition_reassignments"
        ),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: Rule(_list_reassignments),
        # Topics
        ApiKey.CREATE_TOPICS: Rule(
            lambda image, request, around: create_topics(image, request, around.topic_rules)
        ),
        ApiKey.DELETE_TOPICS: Rule(
            lambda image, request, around: delete_topics(image, request, around.charge_partitions)
        ),
        ApiKey.CREATE_PARTITIONS: _on_demand(
            "create_partitions",
            "create_partitions",
            lambda around: (around.config.topics, around.charge_partitions),
        ),
        # Configuration and features
        ApiKey.ALTER_CONFIGS: _on_demand("configs", "alter_configs", _for_configs),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _on_demand(
            "configs", "incremental_alter_configs", _for_configs
        ),
        ApiKey.UPDATE_FEATURES: _on_demand("feature_levels", "update_features", _static_texts),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _on_demand("scram_users", "alter_scram_users"),
        ApiKey.CREATE_DELEGATION_TOKEN: _on_tokens("create_token"),
        ApiKey.RENEW_DELEGATION_TOKEN: _on_tokens("renew_token"),
        ApiKey.EXPIRE_DELEGATION_TOKEN: _on_tokens("expire_token"),
        ApiKey.ALTER_CLIENT_QUOTAS: _on_demand("client_quotas", "alter_client_quotas"),
        # Access
        ApiKey.CREATE_ACLS: _on_demand("acls", "create_acls", lambda around: (around.new_id,)),
        ApiKey.DELETE_ACLS: _on_demand("acls", "delete_acls"),
    }
)
"""The rows by the API key of the request."""
