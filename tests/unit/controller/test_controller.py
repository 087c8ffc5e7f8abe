"""A controller begins with records of its own, and acts on timers."""

from log_service.common.features import KRAFT_VERSION
from log_service.common.secrets import SecretText
from log_service.common.types import BrokerEpoch, NodeId
from log_service.config.views import TokenConfig
from log_service.protocol.stored.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    UnregisterBrokerRecord,
)
from tests.unit.controller.context import ControllerContext, epoch_of, new_topic
from tests.unit.metadata.records import token

CHECK_MS = 1_000


def token_ids(context: ControllerContext) -> set[str]:
    return set(context.controller.image.access.delegation_tokens)


def test_delegation_tokens_are_removed_at_the_first_look_after_they_have_expired() -> None:
    context = ControllerContext()
    context.write(token("short", CHECK_MS // 2), token("long", CHECK_MS + 1))
    context.new_epoch(
        tokens=TokenConfig(secret=SecretText("secret"), expiry_check_interval_ms=CHECK_MS)
    )
    context.pass_ms(CHECK_MS - 1)
    assert token_ids(context) == {"short", "long"}
    context.pass_ms(1)
    assert token_ids(context) == {"long"}
    context.pass_ms(CHECK_MS)
    assert token_ids(context) == set()


def test_a_broker_that_is_forgotten_or_has_another_epoch_by_now_is_not_declared_dead() -> None:
    context = ControllerContext().start(1, 2)
    first = epoch_of(context, 2)
    context.leave(2)
    context.start(2, incarnation=2)
    context.perform(
        lambda decision: context.controller.declare_dead(NodeId(2), BrokerEpoch(first), decision)
    )
    assert not context.is_fenced(2)
    context.write(UnregisterBrokerRecord(broker_id=2, broker_epoch=epoch_of(context, 2)))
    before = len(context.records)
    context.perform(
        lambda decision: context.controller.declare_dead(NodeId(2), BrokerEpoch(first), decision)
    )
    assert len(context.records) == before


def test_the_level_of_the_quorum_is_shown_among_the_features() -> None:
    context = ControllerContext()
    context.controller.note_kraft_version(1)
    assert context.controller.image.features[KRAFT_VERSION] == 1
    context.start()
    assert context.controller.image.features[KRAFT_VERSION] == 1


def test_a_controller_aborts_the_metadata_transaction_that_the_one_before_has_left_open() -> None:
    context = ControllerContext().start()
    context.write(BeginTransactionRecord(name="bulk"))
    context.new_epoch()
    assert isinstance(context.records[-1], AbortTransactionRecord)
    assert context.create(new_topic("a", 1, 1))[0].error_code == 0
    assert "a" in context.controller.image.topics.by_name
