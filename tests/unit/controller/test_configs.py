"""IncrementalAlterConfigs, decided resource by resource."""

from uuid import UUID

import pytest

from log_service.common.errors import ErrorCode
from log_service.common.features import METADATA_VERSION
from log_service.common.types import NodeId
from log_service.controller.caller import Caller
from log_service.metadata.image import ResourceType
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from log_service.protocol.stored.metadata_records import FeatureLevelRecord
from tests.unit.controller.context import APPEND, DELETE, SET, SUBTRACT, ControllerContext

BROKER, TOPIC = ResourceType.BROKER, ResourceType.TOPIC
CORDONED = "cordoned.log.dirs"


@pytest.fixture
def context() -> ControllerContext:
    context = ControllerContext().start()
    context.created("orders")
    return context


def test_keys_are_set_and_deleted(context: ControllerContext) -> None:
    assert (
        context.alter("orders", ("retention.ms", SET, "5"), ("flush.ms", SET, "7")).error_code == 0
    )
    assert context.configs("orders") == {"retention.ms": "5", "flush.ms": "7"}
    context.alter("orders", ("retention.ms", DELETE, None))
    assert context.configs("orders") == {"flush.ms": "7"}


def test_a_list_is_appended_to_and_subtracted_from(context: ControllerContext) -> None:
    context.alter("orders", ("cleanup.policy", SET, "compact"))
    context.alter("orders", ("cleanup.policy", APPEND, "delete"))
    assert context.configs("orders")["cleanup.policy"] == "compact,delete"
    context.alter("orders", ("cleanup.policy", SUBTRACT, "compact"))
    assert context.configs("orders")["cleanup.policy"] == "delete"
    context.alter("orders", ("cleanup.policy", SUBTRACT, "delete"))
    assert context.configs("orders")["cleanup.policy"] == ""


def test_a_list_that_was_never_set_is_appended_to_its_default(context: ControllerContext) -> None:
    context.alter("orders", ("cleanup.policy", APPEND, "compact"))
    assert context.configs("orders")["cleanup.policy"] == "delete,compact"


def test_a_brokers_file_is_such_a_default() -> None:
    context = ControllerContext(static_texts={"log.cleanup.policy": "compact"}).start()
    context.created("orders")
    context.alter("orders", ("cleanup.policy", APPEND, "delete"))
    assert context.configs("orders")["cleanup.policy"] == "compact,delete"


def test_a_value_that_stays_the_same_is_not_written_again(context: ControllerContext) -> None:
    context.alter("orders", ("cleanup.policy", SET, "compact"))
    before = len(context.records)
    assert (
        context.alter(
            "orders", ("cleanup.policy", SET, "compact"), ("retention.ms", DELETE, None)
        ).error_code
        == 0
    )
    assert context.alter("orders", ("cleanup.policy", APPEND, "compact")).error_code == 0
    assert len(context.records) == before


def test_brokers_have_configuration_one_by_one_and_all_together(context: ControllerContext) -> None:
    assert context.alter("1", ("log.retention.ms", SET, "5"), resource_type=BROKER).error_code == 0
    assert context.alter("", ("message.max.bytes", SET, "9"), resource_type=BROKER).error_code == 0
    assert context.configs("1", BROKER) == {"log.retention.ms": "5"}
    assert context.configs("", BROKER) == {"message.max.bytes": "9", "min.insync.replicas": "1"}


def test_a_list_of_a_broker_is_appended_to_its_files_value() -> None:
    context = ControllerContext(static_texts={"log.cleanup.policy": "compact"}).start()
    context.alter("1", ("log.cleanup.policy", APPEND, "delete"), resource_type=BROKER)
    assert context.configs("1", BROKER) == {"log.cleanup.policy": "compact,delete"}


def test_an_unknown_key_can_be_deleted(context: ControllerContext) -> None:
    assert context.alter("orders", ("nope", DELETE, None)).error_code == 0


@pytest.mark.parametrize(
    ("resource_type", "name", "change", "code"),
    [
        (TOPIC, "orders", ("nope", SET, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", ("retention.ms", SET, "abc"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", ("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", ("nope", SUBTRACT, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", ("cleanup.policy", APPEND, "shrink"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (TOPIC, "orders", ("retention.ms", 4, "1"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "nothing", ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ("retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("log.dirs", SET, "elsewhere"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("num.partitions", SET, "3"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("log.retention.ms", SET, "abc"), ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ("log.retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "7", ("log.retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "1", ("kafka", SET, "INFO"), ErrorCode.INVALID_REQUEST),
        (99, "x", ("a", SET, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_each_fault_has_the_code_that_kafka_gives_it(
    context: ControllerContext,
    resource_type: int,
    name: str,
    change: tuple[str, int, str | None],
    code: ErrorCode,
) -> None:
    before = len(context.records)
    response = context.alter(name, change, resource_type=resource_type)
    assert ErrorCode(response.error_code) is code
    assert response.error_message
    assert (response.resource_type, response.resource_name) == (resource_type, name)
    assert len(context.records) == before


def test_one_bad_change_keeps_all_of_its_resource(context: ControllerContext) -> None:
    response = context.alter("orders", ("retention.ms", SET, "5"), ("flush.ms", SET, "soon"))
    assert ErrorCode(response.error_code) is ErrorCode.INVALID_CONFIG
    assert context.configs("orders") == {}


def test_good_resources_change_beside_bad_ones(context: ControllerContext) -> None:
    responses = context.alter_all(
        [
            (TOPIC, "nothing", [("retention.ms", SET, "5")]),
            (TOPIC, "orders", [("retention.ms", SET, "5")]),
        ]
    )
    assert [response.error_code for response in responses] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        0,
    ]
    assert context.configs("orders") == {"retention.ms": "5"}


def test_a_resource_or_a_key_that_stands_twice_changes_nothing(context: ControllerContext) -> None:
    responses = context.alter_all(
        [(TOPIC, "orders", [("flush.ms", SET, "5")]), (TOPIC, "orders", [("flush.ms", SET, "6")])]
    )
    assert [response.error_code for response in responses] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    response = context.alter("orders", ("flush.ms", SET, "5"), ("flush.ms", DELETE, None))
    assert ErrorCode(response.error_code) is ErrorCode.INVALID_REQUEST
    assert context.configs("orders") == {}


def test_values_are_checked_against_those_that_are_there(context: ControllerContext) -> None:
    context.alter("orders", ("min.compaction.lag.ms", SET, "100"))
    response = context.alter("orders", ("max.compaction.lag.ms", SET, "50"))
    assert ErrorCode(response.error_code) is ErrorCode.INVALID_CONFIG


def test_validate_only_responds_the_same_and_writes_nothing(context: ControllerContext) -> None:
    assert context.alter("orders", ("retention.ms", SET, "5"), validate_only=True).error_code == 0
    assert (
        context.alter("orders", ("retention.ms", SET, "x"), validate_only=True).error_code
        == ErrorCode.INVALID_CONFIG
    )
    assert context.configs("orders") == {}


# Cordoned directories (KIP-1066)


def cordon(
    context: ControllerContext, operation: int, value: str | None, *, is_at_broker: bool = True
) -> tuple[int, str | None]:
    """Ask for a change of what broker 1 cordons, at a broker or at the controller itself."""
    changed = AlterableConfig(name=CORDONED, config_operation=operation, value=value)
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[changed])]
    )
    caller = Caller(version=1, is_at_broker=is_at_broker)
    (result,) = context.perform(
        lambda decision: context.controller.handle(request, decision, "r", caller)
    ).responses
    return result.error_code, result.error_message


def test_a_controller_that_is_asked_itself_lets_directories_leave_the_list_and_none_join_it(
    context: ControllerContext,
) -> None:
    """The controller does not know the broker's disks.

    A path that is on none counts as one directory that takes nothing.
    """
    for operation, value in ((SET, "/a"), (SET, "*"), (APPEND, "/a")):
        code, text = cordon(context, operation, value, is_at_broker=False)
        assert code == ErrorCode.INVALID_CONFIG
        assert text == (
            f"a controller takes nothing new into {CORDONED} ({value}), for it does not know the disks: ask the broker itself"
        )
    assert cordon(context, SET, "/a,/b") == (0, None)
    assert cordon(context, SET, "/b", is_at_broker=False) == (0, None)
    assert cordon(context, APPEND, "/c", is_at_broker=False)[0] == ErrorCode.INVALID_CONFIG
    assert cordon(context, DELETE, None, is_at_broker=False) == (0, None)
    assert context.configs("1", BROKER) == {}


def test_no_directory_is_cordoned_below_the_metadata_version_that_brings_it(
    context: ControllerContext,
) -> None:
    assert cordon(context, SET, "*") == (0, None)
    context.write(FeatureLevelRecord(name=METADATA_VERSION, feature_level=29))
    for operation, value in ((SET, "/a"), (DELETE, None)):
        code, text = cordon(context, operation, value)
        assert (code, text) == (
            ErrorCode.INVALID_CONFIG,
            f"metadata.version is 29; {CORDONED} is there from 30 (4.3-IV0) on",
        )
    context.beat(1, cordoned_log_dirs=[UUID(int=501)])
    assert not context.controller.image.cluster.brokers[NodeId(1)].cordoned_log_dirs


def test_all_directories_and_one_of_them_are_not_cordoned_together(
    context: ControllerContext,
) -> None:
    code, text = cordon(context, SET, "*,/a")
    assert (code, text) == (
        ErrorCode.INVALID_REQUEST,
        f"{CORDONED} names *, which is all of log.dirs, and others beside it",
    )
