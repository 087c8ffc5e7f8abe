"""AlterConfigs replaces all configs of a resource.

Its responses are the same from tidelog and from Apache Kafka.
"""

from dataclasses import replace

import pytest

from log_service.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from log_service.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tests.integration.differential import Duel

pytestmark = pytest.mark.timeout(120)

PROPERTIES: dict[str, str] = {}
"""None: the defaults are shown."""

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def resource(resource_type: int, name: str, **configs: str | None) -> AlterConfigsResource:
    named = [
        AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
    ]
    return AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=named)


def replace_all(
    *resources: AlterConfigsResource, validate_only: bool = False
) -> AlterConfigsRequest:
    return AlterConfigsRequest(resources=list(resources), validate_only=validate_only)


def shown(duel: Duel, name: str, *keys: str, own: set[str]) -> None:
    """Compare the configs of a topic once it has ``own`` alone.

    Kafka responds before its brokers know of a change.
    """
    asked = DescribeConfigsResource(
        resource_type=TOPIC, resource_name=name, configuration_keys=list(keys)
    )
    request = DescribeConfigsRequest(resources=[asked])
    duel.until(
        request,
        4,
        lambda answer: (
            {each.name for each in answer.results[0].configs if each.config_source == 1} == own
        ),
    )
    duel.compare(request, 4)


CASES = {
    "null": resource(TOPIC, "legacy", retention_ms=None),
    "unknown-key": resource(TOPIC, "legacy", no_such_key="1"),
    "bad-number": resource(TOPIC, "legacy", retention_ms="soon"),
    "out-of-range": resource(TOPIC, "legacy", segment_bytes="1"),
    "unknown-topic": resource(TOPIC, "missing", retention_ms="1"),
    "bad-value-of-unknown-topic": resource(TOPIC, "missing", retention_ms="soon"),
    "bad-value-of-bad-topic": resource(TOPIC, "not a name", retention_ms="soon"),
    "no-topic": resource(TOPIC, "", retention_ms="1"),
    "bad-topic": resource(TOPIC, "not a name", retention_ms="1"),
    "metadata-log": resource(TOPIC, "__cluster_metadata", retention_ms="1"),
    "repeated-key": AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="legacy",
        configs=[AlterableConfig(name="retention.ms", value=value) for value in ("1", "2")],
    ),
    "broker": resource(BROKER, "1", log_cleaner_threads="2"),
    "another-broker": resource(BROKER, "7", log_cleaner_threads="2"),
    "no-number": resource(BROKER, "one", log_cleaner_threads="2"),
    "read-only": resource(BROKER, "1", log_dirs="/elsewhere"),
    "logger": resource(LOGGER, "1", root="DEBUG"),
    "strange-type": resource(99, "what", key="1"),
    "no-type": resource(0, "what", key="1"),
}


@pytest.mark.parametrize("case", list(CASES))
def test_what_is_replaced_and_what_is_refused(duel: Duel, case: str) -> None:
    asked = CASES[case]
    if asked.resource_name == "legacy":
        asked = replace(asked, resource_name=f"legacy-{case}")
        duel.create_topic(asked.resource_name)
    for version in (0, 1, 2):
        duel.compare(replace_all(asked), version)
    duel.compare(replace_all(asked, validate_only=True), 2)


def test_what_is_not_named_goes_back_to_its_default(duel: Duel) -> None:
    duel.create_topic("replaced", configs={"retention.ms": "1000", "segment.bytes": "2000000"})
    duel.compare(replace_all(resource(TOPIC, "replaced", cleanup_policy="compact")), 2)
    shown(
        duel, "replaced", "retention.ms", "segment.bytes", "cleanup.policy", own={"cleanup.policy"}
    )
    duel.compare(replace_all(resource(TOPIC, "replaced", retention_ms="5"), validate_only=True), 2)
    shown(duel, "replaced", "retention.ms", "cleanup.policy", own={"cleanup.policy"})
    duel.compare(replace_all(resource(TOPIC, "replaced")), 2)
    shown(duel, "replaced", "retention.ms", "segment.bytes", "cleanup.policy", own=set())


def test_resources_of_one_request_are_decided_one_by_one(duel: Duel) -> None:
    duel.create_topic("one-of-two")
    duel.compare(
        replace_all(
            resource(TOPIC, "missing", retention_ms="1"),
            resource(TOPIC, "one-of-two", retention_ms="1"),
        ),
        2,
    )
    shown(duel, "one-of-two", "retention.ms", own={"retention.ms"})
    duel.compare(replace_all(), 2)
