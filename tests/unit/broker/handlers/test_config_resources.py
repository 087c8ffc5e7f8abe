"""Configuration of loggers, groups and client metrics, and what of a broker's survives a restart."""

import logging
from collections.abc import Iterator

import pytest

from log_service.common.errors import ErrorCode
from log_service.config.definition import ConfigType
from log_service.config.resource_keys import CLIENT_METRICS_KEYS, GROUP_KEYS
from log_service.config.server_keys import SERVER_KEYS
from log_service.config.topic_keys import TOPIC_KEYS
from log_service.metadata.image import ResourceType
from log_service.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from log_service.protocol.stored.metadata_records import ConfigRecord
from tests.sim import World, sim_run
from tests.unit.broker.context import Story, batch, running, tell
from tests.unit.broker.effects_on_logs import log_of, set_dynamically

TOPIC, BROKER, LOGGERS, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = 0, 1, 2
LOGGER = "log_service.network.server"


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    """Levels are of the process: give them back."""
    loggers = [logging.getLogger(), logging.getLogger(LOGGER)]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


async def described(node: Story, resource_type: int, name: str) -> dict[str, str | None]:
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=None
    )
    response = await node.ask(DescribeConfigsRequest(resources=[resource]), 4)
    return {row.name: row.value for row in response.results[0].configs}


async def altered(
    node: Story,
    *resources: tuple[int, str, list[tuple[str, int, str | None]]],
    validate_only: bool = False,
) -> list[int]:
    """Return the error code of each resource, in the order of the request."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )
    response = await node.ask(request, 1)
    assert [(answer.resource_type, answer.resource_name) for answer in response.responses] == [
        (kind, name) for kind, name, _ in resources
    ]
    return [answer.error_code for answer in response.responses]


@pytest.mark.parametrize(
    ("level", "number"), [("TRACE", 5), ("DEBUG", 10), ("WARN", 30), ("FATAL", 50)]
)
def test_the_level_of_a_logger_is_set_and_taken_back(level: str, number: int) -> None:
    async def story(node: Story) -> None:
        before = (await described(node, LOGGERS, "1"))[LOGGER]
        assert await altered(node, (LOGGERS, "1", [(LOGGER, SET, level)]), validate_only=True) == [
            0
        ]
        assert logging.getLogger(LOGGER).level == logging.NOTSET
        assert await altered(node, (LOGGERS, "1", [(LOGGER, SET, level)])) == [0]
        assert logging.getLogger(LOGGER).level == number
        assert (await described(node, LOGGERS, "1"))[LOGGER] == level
        assert await altered(node, (LOGGERS, "1", [(LOGGER, DELETE, None)])) == [0]
        assert logging.getLogger(LOGGER).level == logging.NOTSET
        assert (await described(node, LOGGERS, "1"))[LOGGER] == before

    tell(story)


def test_levels_change_all_or_none_and_only_loggers_of_ours_are_there() -> None:
    async def story(node: Story) -> None:
        names = await described(node, LOGGERS, "1")
        assert "root" in names
        assert all(
            name in {"root", "kafka.authorizer.logger"} or name.split(".")[0] == "log_service"
            for name in names
        )
        assert await altered(
            node, (LOGGERS, "1", [(LOGGER, SET, "DEBUG"), ("nobody", SET, "DEBUG")])
        ) == [ErrorCode.INVALID_CONFIG]
        assert logging.getLogger(LOGGER).level == logging.NOTSET
        assert await altered(
            node, (LOGGERS, "1", [(LOGGER, SET, "DEBUG"), (LOGGER, SET, "INFO")])
        ) == [ErrorCode.INVALID_REQUEST]

    tell(story)


def test_answers_stand_in_the_order_of_the_request_whoever_decides() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        codes = await altered(
            node,
            (LOGGERS, "1", [(LOGGER, SET, "LOUD")]),
            (TOPIC, "a", [("retention.ms", SET, "5")]),
            (LOGGERS, "7", [(LOGGER, SET, "INFO")]),
            (TOPIC, "nothing", [("retention.ms", SET, "5")]),
            (LOGGERS, "1x", [(LOGGER, SET, "INFO")]),
        )
        invalid = ErrorCode.INVALID_REQUEST
        assert codes == [
            ErrorCode.INVALID_CONFIG,
            0,
            invalid,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            invalid,
        ]

    tell(story)


def test_dynamic_configuration_survives_a_restart() -> None:
    async def main(world: World) -> None:
        async with running(world) as node:
            await node.create_topic("a")
            await set_dynamically(node, BROKER, "", "log.retention.ms", "70000")
            await set_dynamically(node, BROKER, "1", "log.segment.bytes", "3000000")
            await set_dynamically(node, BROKER, "1", "log.cleaner.backoff.ms", "77")
            await set_dynamically(node, TOPIC, "a", "max.message.bytes", "5000")
            await set_dynamically(node, GROUP, "g", "consumer.session.timeout.ms", "50000")
            await set_dynamically(node, METRICS, "m", "interval.ms", "5000")
        async with running(world) as node:
            config = log_of(node).config
            assert (config.retention_ms, config.segment_bytes, config.max_message_bytes) == (
                70_000,
                3_000_000,
                5_000,
            )
            assert node.broker.foundation.logs.cleaner.config.backoff_ms == 77
            assert (await described(node, GROUP, "g"))["consumer.session.timeout.ms"] == "50000"
            assert (await described(node, METRICS, "m"))["interval.ms"] == "5000"
            assert await described(node, BROKER, "") == {
                "log.retention.ms": "70000",
                "min.insync.replicas": "1",
            }

    sim_run(1, main)


def test_the_files_min_insync_replicas_is_named_where_the_clusters_holds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(node: Story) -> None:
        await set_dynamically(node, BROKER, "", "min.insync.replicas", "3")
        await set_dynamically(node, BROKER, "", "log.retention.ms", "5")

    tell(story, min_insync_replicas="2")
    told = [
        record.getMessage() for record in caplog.records if "does not count" in record.getMessage()
    ]
    assert len(told) == 1
    assert told[0].startswith("min.insync.replicas=2 of the file does not count")
    assert "of all its brokers is 3" in told[0]


def test_passwords_are_never_shown() -> None:
    async def story(node: Story) -> None:
        await set_dynamically(
            node, BROKER, "1", "listener.name.plaintext.ssl.key.password", "hunter2"
        )
        resource = DescribeConfigsResource(
            resource_type=BROKER, resource_name="1", configuration_keys=None
        )
        response = await node.ask(
            DescribeConfigsRequest(
                resources=[resource], include_synonyms=True, include_documentation=True
            ),
            4,
        )
        assert "hunter2" not in repr(response)
        row = {row.name: row for row in response.results[0].configs}[
            "listener.name.plaintext.ssl.key.password"
        ]
        assert (row.value, row.is_sensitive, [synonym.value for synonym in row.synonyms]) == (
            None,
            True,
            [None],
        )

    tell(story, ssl_truststore_password="hunter2")


def test_a_value_of_an_unknown_key_is_never_shown() -> None:
    """It may be a plug-in's password, of this broker or of all of them."""

    async def story(node: Story) -> None:
        for broker in ("1", ""):
            await set_dynamically(node, BROKER, broker, "plugin.secret", "hunter2")
            resource = DescribeConfigsResource(
                resource_type=BROKER, resource_name=broker, configuration_keys=None
            )
            response = await node.ask(
                DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4
            )
            row = {row.name: row for row in response.results[0].configs}["plugin.secret"]
            assert (row.value, row.is_sensitive) == (None, True)
            assert row.synonyms
            assert {synonym.value for synonym in row.synonyms} == {None}

    tell(story, plugin_secret="hunter2")


def test_what_has_no_effect_is_said_when_it_is_set(caplog: pytest.LogCaptureFixture) -> None:
    async def story(node: Story) -> None:
        await set_dynamically(node, BROKER, "", "background.threads", "12")
        await set_dynamically(node, BROKER, "", "log.retention.ms", "5")

    tell(story)
    told = [record.getMessage() for record in caplog.records if "no effect" in record.getMessage()]
    assert told == ["These keys were set for brokers and have no effect here: background.threads"]


def test_values_that_another_version_left_in_the_metadata_are_passed_over() -> None:
    async def main(world: World) -> None:
        async with running(world) as node:
            await node.create_topic("a")
            left = [
                ConfigRecord(resource_type=BROKER, resource_name=name, name=key, value="strange")
                for name in ("", "1")
                for key in (
                    "num.io.threads",
                    "max.connections",
                    "background.threads",
                    "log.retention.ms",
                    "max.connections.per.ip.overrides",
                )
            ]
            assert node.broker.rooms.controller.runtime is not None
            node.broker.rooms.controller.runtime.decide_alone(
                lambda decision: decision.records.extend(left)
            )
            await set_dynamically(node, BROKER, "1", "num.io.threads", "5")
            assert (await described(node, BROKER, "1"))["max.connections"] == "10000"
            assert log_of(node).config.retention_ms == 604_800_000
        async with running(world) as node:
            assert (await described(node, BROKER, "1"))["num.io.threads"] == "5"

    sim_run(1, main)


ODD = (
    "",
    " ",
    "-1",
    "0",
    "x",
    "NaN",
    "1e400",
    "٣",
    "a,b,,",
    "*",
    "\0",
    "-9223372036854775808",
    "9" * 30,
    "0x10",
    ":1",
    "[::1]:5,",
)


@pytest.mark.parametrize(
    ("resource_type", "name"),
    [(BROKER, ""), (BROKER, "1"), (TOPIC, "a"), (GROUP, "g"), (METRICS, "m")],
)
def test_no_value_of_any_key_leaves_a_resource_that_cannot_be_shown_or_used(
    resource_type: int, name: str
) -> None:
    keys = {
        TOPIC: TOPIC_KEYS,
        BROKER: SERVER_KEYS,
        GROUP: GROUP_KEYS,
        METRICS: CLIENT_METRICS_KEYS,
    }[ResourceType(resource_type)]

    async def main(world: World) -> None:
        async with running(world) as node:
            await node.create_topic("a")
            for key in keys:
                for operation in (SET, APPEND) if keys[key].type is ConfigType.LIST else (SET,):
                    for value in ODD:
                        await altered(node, (resource_type, name, [(key, operation, value)]))
                assert (
                    key in await described(node, resource_type, name)
                    or (resource_type, name) == (BROKER, "")
                    or keys[key].is_internal
                )
                await altered(node, (resource_type, name, [(key, DELETE, None)]))
            assert await described(node, BROKER, "1")
            assert (await node.produce("a", batch(b"still"))).error_code == 0
        async with running(world) as node:
            assert await described(node, resource_type, name) is not None

    sim_run(1, main)
