"""The controller's core: the state machine over the metadata log.

The controller passes each request and the newest metadata to a rule (``rules.table``), which
decides. It keeps the broker state that is only in memory: last contact and metadata offset
(``sessions``). It never waits, reads no clock, opens no file. Its metadata is ahead of the
committed metadata, because it contains every appended record.

Invariants:

- Only ``replay`` changes the metadata.
- A decision changes sessions only if its records are appended. A refused append leaves the core as
  it was.
- Brokers whose sessions ended are fenced in one change.
- A controller that was stalled reads the heartbeats that arrived meanwhile before it fences anyone.
- The controller never fences the broker of its own process for an ended session.

The runtime delays replies until all metadata that the decision has read is committed.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from log_service.common.features import METADATA_VERSION
from log_service.common.types import BrokerEpoch, LeaderEpoch, NodeId
from log_service.controller.caller import Caller
from log_service.controller.rules.brokers import (
    BrokerState,
    MetadataProgress,
    fence_brokers,
    heartbeat,
)
from log_service.controller.rules.partitions import is_active
from log_service.controller.rules.table import RULES, ControllerConfig, Surroundings
from log_service.controller.rules.topics import ChargePartitions
from log_service.controller.sessions import UNKNOWN_OFFSET, BrokerSession, BrokerSessions
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.features import bootstrap_records, keeps_eligible_leaders, validate_levels
from log_service.metadata.image import BrokerRegistration, MetadataImage
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from log_service.protocol.messages.broker_registration import BrokerRegistrationRequest
from log_service.protocol.messages.unregister_broker import UnregisterBrokerRequest
from log_service.protocol.schema import Message
from log_service.protocol.stored.metadata_records import (
    AbortTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from log_service.quota.entities import Client
from log_service.quota.tokens import MutationCharge, MutationQuotas
from log_service.state_machine.decision import Decision, ReplayContext
from log_service.state_machine.runtime import RETRY_MS
from log_service.state_machine.stalls import STALL_GRACE_MS, STALL_MS

if TYPE_CHECKING:
    from log_service.security.delegation import TokenIndex

MetadataDecision = Decision[MetadataRecord]

FIRST_STRICT_VERSIONS: Mapping[int, int] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}
"""First version of an API whose clients know that their quota can be exceeded.

An older client gets its partitions and is throttled afterwards.
"""

NEXT_RUN_MS = 10
"""Pause before the next run of elections, if one run could not hold all of them."""


@dataclass(frozen=True, slots=True)
class SessionTimer:
    """The timer that fences a broker unless it sends another heartbeat."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class Stall:
    """A stall of the controller: a session timer fired ``late_ms`` too late.

    From then on, no session ends for ``grace_ms``.
    """

    late_ms: int
    grace_ms: int


class ElectionTimer(Enum):
    """The timers of the elections that the controller holds without a request."""

    PREFERRED = auto()
    UNCLEAN = auto()


class TokenTimer(Enum):
    """The timer that removes expired delegation tokens."""

    EXPIRY = auto()


class Controller:
    """The active controller of one epoch."""

    def __init__(
        self,
        config: ControllerConfig,
        image: MetadataImage,
        epoch: LeaderEpoch,
        new_id: Callable[[], UUID],
    ) -> None:
        self._config = config
        self._epoch = epoch
        self._new_id = new_id
        self._image = image
        self._delta: MetadataDelta | None = None
        self._first_offset = self._offset = image.offset
        self._sessions = BrokerSessions(config.broker_session_timeout_ms)
        self._grace_end_ms = 0  # no session ends before this time: heartbeats may be unread
        self._registered_at: dict[NodeId, int] = {}
        self._mutations = MutationQuotas(config.mutation_windows)
        self._token_index: TokenIndex | None = None

    def __repr__(self) -> str:
        return f"<Controller node={self._config.node_id} epoch={self._epoch} offset={self._offset}>"

    # State

    @property
    def presumed_brokers(self) -> frozenset[NodeId]:
        """The brokers that count as alive although this controller does not know whether they are.

        They have sent this controller no heartbeat yet, or none since it suspects them.
        """
        return self._sessions.presumed()

    @property
    def image(self) -> MetadataImage:
        """The metadata after all appended records."""
        if self._delta is not None:
            self._image, self._delta = (
                self._delta.build(offset=self._offset, epoch=self._epoch),
                None,
            )
        return self._image

    def replay(self, record: MetadataRecord, context: ReplayContext) -> None:
        """Apply one record. The image is built on its next use."""
        if self._delta is None:
            self._delta = MetadataDelta(self._image)
        self._delta.replay(record)
        self._offset = context.offset
        if isinstance(record, RegisterBrokerRecord):
            self._registered_at[NodeId(record.broker_id)] = context.offset
        elif isinstance(record, UnregisterBrokerRecord):
            self._registered_at.pop(NodeId(record.broker_id), None)

    def note_kraft_version(self, level: int) -> None:
        """Apply a level of kraft.version, which the quorum has written without the controller."""
        if self._delta is None:
            self._delta = MetadataDelta(self._image)
        self._delta.replay_kraft_version(level)

    # Decisions

    def activate(self, bootstrap: Sequence[MetadataRecord], decision: MetadataDecision) -> None:
        """Begin to act as the active controller.

        An empty log gets its first records. A metadata transaction that the previous controller
        left open is aborted. Brokers that count as alive get one session timeout to send a
        heartbeat.

        Raises:
            StorageError: the cluster has feature levels that this version does not support.
        """
        image = self.image
        validate_levels(image.features)
        for broker in image.cluster.unfenced():
            presumed = BrokerSession(
                epoch=broker.epoch, contact_ms=decision.now_ms, is_presumed=True
            )
            self._sessions.put(broker.node_id, presumed, decision)
            self._await_contact(broker.node_id, decision)
        if image.open_transaction is not None:
            decision.append(
                AbortTransactionRecord(reason="the controller that began it leads no more")
            )
        if METADATA_VERSION not in image.features:
            decision.records += self._first_records(bootstrap)
        for timer in ElectionTimer:
            self._set_election_timer(timer, decision)
        self._set_token_timer(decision)

    def _first_records(self, bootstrap: Sequence[MetadataRecord]) -> list[MetadataRecord]:
        records = bootstrap_records(bootstrap)
        levels = {
            record.name: record.feature_level
            for record in records
            if isinstance(record, FeatureLevelRecord)
        }
        if keeps_eligible_leaders(levels):
            from log_service.controller.rules.feature_levels import (  # noqa: PLC0415 - once in a cluster's life
                min_isr_records,
            )

            records += min_isr_records(self.image, self._config.static_texts)
        return records

    def handle(
        self,
        request: Message,
        decision: MetadataDecision,
        reply_to: Hashable,
        caller: Caller | None = None,
    ) -> None:
        """Decide one request by its rule.

        ``caller`` is the client that sent it. It is None for a node's own request, which has no
        quota.

        Raises:
            KafkaError: the request is refused as a whole.
        """
        if isinstance(request, BrokerHeartbeatRequest):
            self._decide_heartbeat(request, decision, reply_to)
            return
        rule = RULES[request.SCHEMA.key]  # type: ignore[index]  # a whole message has a key
        charge = None if caller is None else self._charge_of(request, caller, decision)
        records, response = rule.decide(
            self.image,
            request,
            self._surroundings(decision, _free if charge is None else charge.take, caller),
        )
        if charge is not None and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = charge.throttle_time_ms
        decision.records += records
        decision.reply(reply_to, response)
        if isinstance(request, BrokerRegistrationRequest | UnregisterBrokerRequest):
            self._forget_other_epochs(
                NodeId(request.broker_id), getattr(response, "broker_epoch", None), decision
            )

    def on_timer(self, key: Hashable, decision: MetadataDecision) -> None:
        """Fence brokers whose sessions have ended, hold due elections, or remove expired tokens."""
        if isinstance(key, SessionTimer):
            self._end_sessions(key, decision)
        elif isinstance(key, TokenTimer):
            self._remove_expired_tokens(decision)
        else:
            assert isinstance(key, ElectionTimer)
            self._hold_elections(key, decision)

    def _surroundings(
        self,
        decision: MetadataDecision,
        charge_partitions: ChargePartitions | None = None,
        caller: Caller | None = None,
    ) -> Surroundings:
        return Surroundings(
            config=self._config,
            new_id=self._new_id,
            has_live_session=lambda node_id: self._refuses_others(node_id, decision.now_ms),
            charge_partitions=charge_partitions or _free,
            presumed=self._sessions.presumed(),
            wall_ms=decision.wall_ms,
            caller=caller,
            token_index=self._tokens_by_hmac,
        )

    def _tokens_by_hmac(self) -> "TokenIndex | None":
        secret = self._config.tokens.secret
        if self._token_index is None and secret is not None:
            from log_service.security.delegation import (  # noqa: PLC0415 - few clusters have tokens
                TokenIndex,
            )

            self._token_index = TokenIndex(secret)
        return self._token_index

    def _charge_of(
        self, request: Message, caller: Caller, decision: MetadataDecision
    ) -> MutationCharge | None:
        """Return the quota charge of a client's request (KIP-599).

        Return None if the request changes no partitions, or no quota applies.
        """
        first_strict = FIRST_STRICT_VERSIONS.get(request.SCHEMA.key)  # type: ignore[arg-type]  # a whole message has a key
        if first_strict is None:
            return None
        return self._mutations.charge_of(
            self.image.access.client_quotas,
            Client(caller.principal.name, caller.client_id or ""),
            decision.now_ms,
            is_strict=caller.version >= first_strict,
            remember=decision.stage,
        )

    # Sessions

    def _decide_heartbeat(
        self, request: BrokerHeartbeatRequest, decision: MetadataDecision, reply_to: Hashable
    ) -> None:
        """Decide a heartbeat and renew the session of its sender.

        A broker that may stop loses its session, so that its next process does not count as a
        duplicate.

        Raises:
            KafkaError: STALE_BROKER_EPOCH.
        """
        image, node_id, epoch = (
            self.image,
            NodeId(request.broker_id),
            BrokerEpoch(request.broker_epoch),
        )
        session = self._sessions.get(node_id, epoch)
        progress = MetadataProgress(
            registered_at=self._registered_at.get(node_id, self._first_offset),
            lowest_active=self._sessions.lowest_offset(
                (broker.node_id, broker.epoch)
                for broker in image.cluster.brokers.values()
                if not broker.is_fenced
            ),
            leaves_at=session.leaves_at if session.is_leaving else None,
        )
        records, response, state = heartbeat(
            self._surroundings(decision).partitions(image), request, progress
        )
        decision.records += records
        decision.reply(reply_to, response)
        if state is BrokerState.MAY_STOP:
            self._forget(node_id, decision)
            return
        leaves_at = UNKNOWN_OFFSET
        if state is BrokerState.LEAVING:
            leaves_at = session.leaves_at if session.is_leaving else image.offset + len(records)
        self._sessions.note_heartbeat(
            node_id,
            epoch,
            decision,
            metadata_offset=request.current_metadata_offset,
            leaves_at=leaves_at,
        )
        self._await_contact(node_id, decision)

    def _refuses_others(self, node_id: NodeId, now_ms: int) -> bool:
        """Whether another process with this broker id counts as a duplicate of a live broker.

        This node's own broker counts only once it has sent this controller a heartbeat. Before
        that, the metadata shows its previous process, which has ended because this process holds
        the locks of its directories.
        """
        broker = self.image.cluster.brokers.get(node_id)
        if broker is None or not self._sessions.is_live(node_id, broker.epoch, now_ms):
            return False
        return (
            node_id != self._config.node_id
            or not self._sessions.get(node_id, broker.epoch).is_presumed
        )

    def _forget_other_epochs(
        self, node_id: NodeId, epoch: int | None, decision: MetadataDecision
    ) -> None:
        broker = self.image.cluster.brokers.get(node_id)
        if broker is not None and broker.epoch != epoch:
            self._forget(node_id, decision)

    def _end_sessions(self, timer: SessionTimer, decision: MetadataDecision) -> None:
        """Fence every broker whose session has ended by now.

        Brokers are fenced together, because a new controller begins all their sessions at the same
        time. After a stall, the controller first reads the heartbeats that arrived meanwhile.
        Otherwise it would fence live brokers.
        """
        end_ms = self._sessions.end_ms(timer.node_id)
        late_ms = 0 if end_ms is None else decision.now_ms - max(end_ms, self._grace_end_ms)
        if late_ms > STALL_MS:
            stall = Stall(late_ms, min(self._sessions.timeout_ms, STALL_GRACE_MS))
            self._set_grace_end(decision.now_ms + stall.grace_ms)
            decision.announce(stall)
        if decision.now_ms < self._grace_end_ms:
            decision.set_timer(timer, self._grace_end_ms)
            return
        # A refused decision is retried later. The delay must not count as a stall of this node.
        decision.on_refused(partial(self._set_grace_end, decision.now_ms + RETRY_MS))
        brokers = [broker for _, broker in sorted(self.image.cluster.brokers.items())]
        self._fence([each for each in brokers if self._is_silent(each, decision.now_ms)], decision)

    def _set_grace_end(self, at_ms: int) -> None:
        self._grace_end_ms = at_ms

    def _is_silent(self, broker: BrokerRegistration, now_ms: int) -> bool:
        """Whether a broker's session has ended.

        The session of this process's own broker never ends, because the process may only be busy.
        If this controller has had no heartbeat from the broker of this node, the session belongs to
        the previous process. That session does end.
        """
        session = self._sessions.get(broker.node_id, broker.epoch)
        is_here = (
            broker.node_id == self._config.node_id
            and session.contact_ms is not None
            and not session.is_presumed
        )
        return not is_here and not self._sessions.is_live(broker.node_id, broker.epoch, now_ms)

    def suspect(self, node_id: NodeId, epoch: BrokerEpoch, decision: MetadataDecision) -> None:
        """Mark a broker as only presumed alive, so that it is not elected.

        Its connection has ended, and its addresses refuse new connections.
        """
        session = self._sessions.get(node_id, epoch)
        if session.contact_ms is not None:
            self._sessions.put(node_id, replace(session, is_presumed=True), decision)

    def declare_dead(self, node_id: NodeId, epoch: BrokerEpoch, decision: MetadataDecision) -> None:
        """End the session of a broker whose process is gone, and fence it.

        Nothing happens if the broker has registered with another epoch by now.
        """
        broker = self.image.cluster.brokers.get(node_id)
        if broker is None or broker.epoch != epoch:
            return
        self._fence([broker], decision)

    def _fence(self, brokers: Sequence[BrokerRegistration], decision: MetadataDecision) -> None:
        for broker in brokers:
            self._forget(broker.node_id, decision)
        present = [broker for broker in brokers if not broker.is_fenced]
        if present:
            decision.records += fence_brokers(
                self._surroundings(decision).partitions(self.image), *present
            )

    def _await_contact(self, node_id: NodeId, decision: MetadataDecision) -> None:
        decision.set_timer(SessionTimer(node_id), decision.now_ms + self._sessions.timeout_ms)

    def _forget(self, node_id: NodeId, decision: MetadataDecision) -> None:
        self._sessions.forget(node_id, decision)
        decision.cancel_timer(SessionTimer(node_id))

    # Elections

    def _set_election_timer(
        self, timer: ElectionTimer, decision: MetadataDecision, *, is_unfinished: bool = False
    ) -> None:
        is_preferred = timer is ElectionTimer.PREFERRED
        interval_ms = (
            self._config.leader_balance_interval_ms
            if is_preferred
            else self._config.unclean_election_interval_ms
        )
        if interval_ms is not None:
            decision.set_timer(
                timer, decision.now_ms + (NEXT_RUN_MS if is_unfinished else interval_ms)
            )

    def _hold_elections(self, timer: ElectionTimer, decision: MetadataDecision) -> None:
        """Hold a bounded number of elections, and set the timer of the next ones.

        With a single broker in the cluster there is nothing to elect.
        """
        image, is_unfinished = self.image, False
        if len(image.cluster.brokers) > 1 and any(
            is_active(image, node_id) for node_id in image.cluster.brokers
        ):
            from log_service.controller.rules.elections import (  # noqa: PLC0415 - not for a lone node
                balance_leaders,
                elect_uncleanly,
            )

            partitions = self._surroundings(decision).partitions(image)
            hold = balance_leaders if timer is ElectionTimer.PREFERRED else elect_uncleanly
            is_unfinished = hold(partitions)
            decision.records += partitions.records
        self._set_election_timer(timer, decision, is_unfinished=is_unfinished)

    # Delegation tokens

    def _set_token_timer(self, decision: MetadataDecision) -> None:
        if self._config.tokens.secret is not None:
            decision.set_timer(
                TokenTimer.EXPIRY, decision.now_ms + self._config.tokens.expiry_check_interval_ms
            )

    def _remove_expired_tokens(self, decision: MetadataDecision) -> None:
        from log_service.controller.rules.delegation_tokens import (  # noqa: PLC0415 - few clusters have tokens
            expired_tokens,
        )

        decision.records += expired_tokens(self.image, decision.wall_ms)
        self._set_token_timer(decision)


def _free(partition_count: int) -> None:
    """Charge nothing, because no quota applies to the sender."""
