"""AlterClientQuotas: what the controller writes, and what it refuses. KIP-546, KIP-599, KIP-612."""

from typing import Any

import pytest

from log_service.common.errors import ErrorCode
from log_service.controller.caller import Caller
from log_service.metadata.access import QuotaPart
from log_service.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from log_service.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from log_service.protocol.messages.create_topics import CreateTopicsRequest
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from log_service.protocol.stored.metadata_records import ClientQuotaRecord
from log_service.state_machine.decision import Decision
from tests.unit.controller.context import ControllerContext, new_topic

INVALID = ErrorCode.INVALID_REQUEST
Entity = tuple[tuple[str, str | None], ...]
ALICE: Entity = (("user", "alice"),)


def entry(entity: Entity, **values: float | None) -> RequestEntryData:
    return RequestEntryData(
        entity=[RequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in values.items()
        ],
    )


def alter(
    context: ControllerContext, *entries: RequestEntryData, validate_only: bool = False
) -> list[int]:
    response = context.ask(
        AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    )
    return [each.error_code for each in response.entries]


@pytest.fixture
def context() -> ControllerContext:
    return ControllerContext().start()


def quotas_of(context: ControllerContext) -> dict[Any, dict[str, float]]:
    return {
        entity: dict(values)
        for entity, values in context.controller.image.access.client_quotas.items()
    }


def test_quotas_are_set_changed_and_removed(context: ControllerContext) -> None:
    assert alter(context, entry(ALICE, producer_byte_rate=1_000, request_percentage=12.5)) == [0]
    assert quotas_of(context) == {
        (QuotaPart("user", "alice"),): {"producer_byte_rate": 1_000, "request_percentage": 12.5}
    }
    assert alter(context, entry(ALICE, producer_byte_rate=2_000, request_percentage=None)) == [0]
    assert quotas_of(context) == {(QuotaPart("user", "alice"),): {"producer_byte_rate": 2_000}}
    assert alter(context, entry(ALICE, producer_byte_rate=None)) == [0]
    assert quotas_of(context) == {}


def test_what_stays_the_same_is_not_written(context: ControllerContext) -> None:
    alter(context, entry(ALICE, producer_byte_rate=1_000))
    before = len(context.records)
    assert alter(context, entry(ALICE, producer_byte_rate=1_000, consumer_byte_rate=None)) == [0]
    assert len(context.records) == before
    assert alter(context, entry(ALICE, producer_byte_rate=9), validate_only=True) == [0]
    assert len(context.records) == before


def test_the_order_of_the_parts_does_not_matter(context: ControllerContext) -> None:
    alter(context, entry((("user", None), ("client-id", "c")), producer_byte_rate=5))
    before = len(context.records)
    alter(context, entry((("client-id", "c"), ("user", None)), producer_byte_rate=5))
    assert len(context.records) == before
    assert all(isinstance(record, ClientQuotaRecord) for record in context.records[before - 1 :])


@pytest.mark.parametrize(
    "refused",
    [
        entry((), producer_byte_rate=1),
        entry((("group", "g"),), producer_byte_rate=1),
        entry((("user", ""),), producer_byte_rate=1),
        entry((("ip", "1.2.3.4"), ("user", "u")), connection_creation_rate=1),
        entry((("ip", "no address"),), connection_creation_rate=1),
        entry((("ip", "1.2.3.4"),), producer_byte_rate=1),
        entry((("ip", "1.2.3.4"),), connection_creation_rate=1.5),
        entry((("ip", "1.2.3.4"),), connection_creation_rate=2.0**31),
        entry(ALICE, connection_creation_rate=1),
        entry(ALICE, something_else=1),
        entry(ALICE, producer_byte_rate=0),
        entry(ALICE, producer_byte_rate=-1),
        entry(ALICE, consumer_byte_rate=1.5),
        entry(ALICE, consumer_byte_rate=1e300),
        entry(ALICE, request_percentage=-0.5),
        entry(ALICE, controller_mutation_rate=float("nan")),
        entry(ALICE, controller_mutation_rate=float("inf")),
    ],
    ids=repr,
)
def test_what_makes_no_sense_is_refused_and_others_are_done(
    context: ControllerContext, refused: RequestEntryData
) -> None:
    response = context.ask(
        AlterClientQuotasRequest(entries=[refused, entry((("user", None),), producer_byte_rate=1)])
    )
    assert [each.error_code for each in response.entries] == [INVALID, 0]
    assert response.entries[0].error_message
    assert quotas_of(context) == {
        (QuotaPart("user", "", is_default=True),): {"producer_byte_rate": 1}
    }


def test_a_quota_or_an_entity_that_is_named_twice_is_refused(context: ControllerContext) -> None:
    twice = RequestEntryData(
        entity=[RequestEntityData(entity_type="user", entity_name="alice")],
        ops=[OpData(key="producer_byte_rate", value=1), OpData(key="producer_byte_rate", value=2)],
    )
    assert alter(context, twice) == [INVALID]
    assert alter(
        context, entry(ALICE, producer_byte_rate=1), entry(ALICE, producer_byte_rate=2)
    ) == [INVALID]


def test_an_entity_that_is_named_twice_keeps_the_changes_of_its_first_entry(
    context: ControllerContext,
) -> None:
    """As in Apache Kafka 4.3 (``ClientQuotaControlManager``), although the result is an error."""
    alter(context, entry(ALICE, producer_byte_rate=1), entry(ALICE, producer_byte_rate=2))
    assert quotas_of(context) == {(QuotaPart("user", "alice"),): {"producer_byte_rate": 1}}


def asked_by(
    context: ControllerContext, request: Any, version: int, client_id: str | None = "c"
) -> Any:
    caller = Caller(version=version, client_id=client_id)
    return context.perform(
        lambda decision: context.controller.handle(request, decision, "r", caller)
    )


def test_one_request_may_go_below_zero_once(context: ControllerContext) -> None:
    """Topics of one request are charged one by one; once there is less than nothing, the rest is
    refused.
    """
    alter(context, entry((("user", None),), controller_mutation_rate=0.1))
    topics = [new_topic(name, 2, 1) for name in ("a", "b", "c")]
    response = asked_by(context, CreateTopicsRequest(topics=topics, timeout_ms=1_000), 7)
    assert [topic.error_code for topic in response.topics] == [
        0,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ]
    assert response.throttle_time_ms == 9_000
    deleted = asked_by(
        context, DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1_000), 6
    )
    assert deleted.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert "a" in context.controller.image.topics.by_name


@pytest.mark.parametrize(
    ("request_", "first_strict"),
    [
        (CreateTopicsRequest(topics=[new_topic("b", 1, 1)], timeout_ms=1_000), 6),
        (DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1_000), 5),
        (
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="a", count=101, assignments=None)],
                timeout_ms=1_000,
            ),
            3,
        ),
    ],
    ids=["CreateTopics", "DeleteTopics", "CreatePartitions"],
)
def test_a_client_that_does_not_know_the_refusal_is_served_and_pauses(
    request_: Any, first_strict: int
) -> None:
    """Before KIP-599 no client could be refused for its quota."""
    for version, code in (
        (first_strict - 1, ErrorCode.NONE),
        (first_strict, ErrorCode.THROTTLING_QUOTA_EXCEEDED),
    ):
        context = ControllerContext().start()
        alter(context, entry((("user", None),), controller_mutation_rate=0.1))
        asked_by(context, CreateTopicsRequest(topics=[new_topic("a", 100, 1)], timeout_ms=1_000), 7)
        response = asked_by(context, request_, version)
        results = (
            getattr(response, "topics", None)
            or getattr(response, "responses", None)
            or response.results
        )
        assert [each.error_code for each in results] == [code]
        assert response.throttle_time_ms > 0


def test_the_quota_of_a_client_id_is_that_of_its_clients_alone(context: ControllerContext) -> None:
    alter(context, entry((("client-id", "c"),), controller_mutation_rate=0.1))
    for client_id, is_bound in (("c", True), ("d", False), (None, False)):
        name = f"of-{client_id}"
        asked_by(
            context,
            CreateTopicsRequest(topics=[new_topic(name, 100, 1)], timeout_ms=1_000),
            7,
            client_id,
        )
        deleted = asked_by(
            context,
            DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1_000),
            6,
            client_id,
        )
        assert (deleted.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED) is is_bound


def test_a_decision_that_is_taken_back_gives_its_tokens_back(context: ControllerContext) -> None:
    alter(context, entry((("user", None),), controller_mutation_rate=0.1))
    request = CreateTopicsRequest(topics=[new_topic("a", 100, 1)], timeout_ms=1_000)
    refused: Any = Decision(context.now_ms, context.now_ms)
    context.controller.handle(request, refused, "r", Caller(version=7, client_id="c"))
    refused.take_back()
    assert asked_by(context, request, 7).topics[0].error_code == 0


def test_a_node_that_asks_for_itself_has_no_quota(context: ControllerContext) -> None:
    alter(context, entry((("user", None),), controller_mutation_rate=0.1))
    for name in ("a", "b", "c", "d"):
        assert (
            context.ask(CreateTopicsRequest(topics=[new_topic(name, 5, 1)], timeout_ms=1_000))
            .topics[0]
            .error_code
            == 0
        )
