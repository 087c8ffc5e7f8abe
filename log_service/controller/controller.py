"""The controller's core: the state machine over the metadata log.

Decides by handing the newest metadata to the rule of each request (``rules.table``), and keeps what no log holds: when brokers were last
heard of. Never waits, reads no clock, opens no file. Its metadata runs ahead of what is committed: it contains every record that was
appended.

Invariants: ``replay`` alone changes the metadata; what brokers have said of themselves counts once their records are appended, so that a
refused append leaves the core as it was. Replies wait, in the runtime, until everything the decision has seen is committed.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from uuid import UUID

from log_service.common.types import LeaderEpoch, NodeId
from log_service.controller.rules.brokers import fence_broker
from log_service.controller.rules.table import RULES, ControllerConfig, Rule, Surroundings
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.features import METADATA_VERSION, bootstrap_records, validate_levels
from log_service.metadata.image import MetadataImage
from log_service.protocol.schema import Message
from log_service.protocol.stored.metadata_records import AbortTransactionRecord, MetadataRecord
from log_service.state_machine.decision import Decision, ReplayContext

MetadataDecision = Decision[MetadataRecord]


@dataclass(frozen=True, slots=True)
class SessionTimer:
    """The timer that fences a broker unless it is heard of again."""

    node_id: NodeId


class Controller:
    """The active controller of one epoch."""

    def __init__(self, config: ControllerConfig, image: MetadataImage, epoch: LeaderEpoch, new_id: Callable[[], UUID]) -> None:
        self._config = config
        self._epoch = epoch
        self._new_id = new_id
        self._image = image
        self._delta: MetadataDelta | None = None
        self._offset = image.offset
        self._contacts: dict[NodeId, int] = {}

    def __repr__(self) -> str:
        return f"<Controller node={self._config.node_id} epoch={self._epoch} offset={self._offset}>"

    # State

    @property
    def image(self) -> MetadataImage:
        """The metadata after everything that was appended."""
        if self._delta is not None:
            self._image, self._delta = self._delta.build(offset=self._offset, epoch=self._epoch), None
        return self._image

    def replay(self, record: MetadataRecord, context: ReplayContext) -> None:
        """Take over one record; the image is built when it is next asked for."""
        if self._delta is None:
            self._delta = MetadataDelta(self._image)
        self._delta.replay(record)
        self._offset = context.offset

    # Decisions

    def activate(self, bootstrap: Sequence[MetadataRecord], decision: MetadataDecision) -> None:
        """Begin to lead: an empty log gets its first records; brokers that count as alive get one session to be heard of.

        This node's own broker is not among them: the process that held its directories before is gone.

        Raises:
            StorageError: the cluster has feature levels that cannot be served.
        """
        image = self.image
        validate_levels(image.features)
        for broker in image.cluster.unfenced():
            if broker.node_id != self._config.node_id:
                self._renew_session(broker.node_id, decision)
        if image.open_transaction is not None:
            decision.append(AbortTransactionRecord(reason="the controller that began it leads no more"))
        if METADATA_VERSION not in image.features:
            decision.records += bootstrap_records(bootstrap)

    def handle(self, request: Message, decision: MetadataDecision, reply_to: Hashable) -> None:
        """Decide on one request by its rule.

        Raises:
            KafkaError: the request is refused as a whole.
        """
        rule = RULES[request.SCHEMA.key]  # type: ignore[index]  # a whole message has a key
        around = Surroundings(
            config=self._config, new_id=self._new_id, has_live_session=lambda node_id: self._has_live_session(node_id, decision.now_ms)
        )
        records, response = rule.decide(self.image, request, around)
        decision.records += records
        decision.reply(reply_to, response)
        self._note_session(rule, request, decision)

    def on_timer(self, key: Hashable, decision: MetadataDecision) -> None:
        """Fence a broker whose session has run out."""
        assert isinstance(key, SessionTimer)
        broker = self.image.cluster.brokers.get(key.node_id)
        if broker is None or broker.is_fenced or self._has_live_session(key.node_id, decision.now_ms):
            return
        self._end_session(key.node_id, decision)
        decision.records += fence_broker(self.image, broker)

    # Sessions

    def _note_session(self, rule: Rule, request: Message, decision: MetadataDecision) -> None:
        if rule.session_of is None:
            return
        if rule.keeps_session(request):
            self._renew_session(rule.session_of(request), decision)
        else:
            self._end_session(rule.session_of(request), decision)

    def _has_live_session(self, node_id: NodeId, now_ms: int) -> bool:
        contact_ms = self._contacts.get(node_id)
        return contact_ms is not None and now_ms - contact_ms < self._config.broker_session_timeout_ms

    def _renew_session(self, node_id: NodeId, decision: MetadataDecision) -> None:
        self._stage_contact(node_id, decision)
        self._contacts[node_id] = decision.now_ms
        decision.set_timer(SessionTimer(node_id), decision.now_ms + self._config.broker_session_timeout_ms)

    def _end_session(self, node_id: NodeId, decision: MetadataDecision) -> None:
        self._stage_contact(node_id, decision)
        self._contacts.pop(node_id, None)
        decision.cancel_timer(SessionTimer(node_id))

    def _stage_contact(self, node_id: NodeId, decision: MetadataDecision) -> None:
        contact_ms = self._contacts.get(node_id)

        def undo() -> None:
            self._contacts.pop(node_id, None)
            if contact_ms is not None:
                self._contacts[node_id] = contact_ms

        decision.on_refused(undo)
