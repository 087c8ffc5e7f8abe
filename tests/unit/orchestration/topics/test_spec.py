"""Topics as declared against topics as they are."""

import pytest

from orchestration.log_client.protocol import LogServiceAwayError, LogServiceError, TopicDescription
from orchestration.topics.spec import TopicSpec, plan_changes, reconcile, reconcile_all
from tests.unit.orchestration.memory_log import MemoryLog

SPEC = TopicSpec(name="flights", partitions=3, configs={"retention.ms": "1000"})


def test_a_missing_topic_is_created_as_declared() -> None:
    log = MemoryLog()
    changes = reconcile(log, SPEC)
    assert changes.summary == "created"
    assert len(log.topics["flights"].partitions) == 3
    assert log.topics["flights"].configs == {"retention.ms": "1000"}


def test_a_topic_that_is_as_declared_is_left_alone() -> None:
    log = MemoryLog()
    reconcile(log, SPEC)
    log.calls.clear()
    assert reconcile(log, SPEC).summary == "as declared"
    assert log.calls == []


def test_partitions_are_added_and_configs_set_and_others_stay() -> None:
    log = MemoryLog()
    log.add_topic("flights", 1).configs.update({"retention.ms": "5", "segment.bytes": "99"})
    changes = reconcile(log, SPEC)
    assert changes.summary == "partitions raised to 3, retention.ms set to 1000"
    assert len(log.topics["flights"].partitions) == 3
    assert log.topics["flights"].configs == {"retention.ms": "1000", "segment.bytes": "99"}


def test_what_would_destroy_is_only_said() -> None:
    log = MemoryLog()
    log.add_topic("flights", 5).replication_factor = 2
    changes = plan_changes(SPEC, log.describe_topic("flights"), {"retention.ms": "1000"})
    assert (changes.partitions, dict(changes.configs)) == (None, {})
    assert [note.split(";")[0] for note in changes.notes] == [
        "topic flights has 5 partitions, 3 are declared",
        "topic flights has replication factor 2, 1 is declared",
    ]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "x" * 250, "ö"])
def test_names_that_kafka_refuses_are_refused_when_declared(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be a topic's name"):
        TopicSpec(name=name)


def test_a_topic_without_partitions_is_refused() -> None:
    with pytest.raises(ValueError, match="needs at least one partition"):
        TopicSpec(name="t", partitions=0)


def test_a_topic_that_is_refused_keeps_no_other_from_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = MemoryLog()
    asked = log.describe_topic

    def refuse(topic: str) -> TopicDescription | None:
        if topic == "flights":
            raise LogServiceError("TOPIC_AUTHORIZATION_FAILED")
        return asked(topic)

    monkeypatch.setattr(log, "describe_topic", refuse)
    changes = reconcile_all(log, [SPEC, TopicSpec(name="orders")])
    assert changes["flights"].notes == (
        "the topic flights could not be looked at: TOPIC_AUTHORIZATION_FAILED",
    )
    assert changes["orders"].summary == "created"


def test_topics_are_not_asked_for_one_by_one_when_the_log_service_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = MemoryLog()

    def go_away(topic: str) -> TopicDescription | None:
        raise LogServiceAwayError(f"nothing responds of {topic}")

    monkeypatch.setattr(log, "describe_topic", go_away)
    with pytest.raises(LogServiceAwayError, match="of flights"):
        reconcile_all(log, [SPEC, TopicSpec(name="orders")])


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        (
            {"retentoin.ms": "1000"},
            "retentoin.ms is not a topic configuration; did you mean retention.ms?",
        ),
        ({"retention.ms": "a week"}, "retention.ms"),
        ({"cleanup.policy": "compress"}, "cleanup.policy"),
        (
            {"min.compaction.lag.ms": 5, "max.compaction.lag.ms": 4},
            "min.compaction.lag.ms 5 is above",
        ),
    ],
)
def test_configs_that_no_broker_takes_are_refused_when_declared(
    configs: dict[str, str], said: str
) -> None:
    with pytest.raises(
        ValueError, match=r"the configs of topic orders cannot be used: "
    ) as refused:
        TopicSpec(name="orders", configs=configs)
    assert said in str(refused.value)


def test_configs_of_other_brokers_are_left_to_them() -> None:
    given = {
        "confluent.value.schema.validation": "true",
        "redpanda.remote.read": "true",
        "remote.storage.enable": "true",
    }
    assert TopicSpec(name="orders", configs=given).configs == given


@pytest.mark.parametrize("field", ["_offset", "_Key", "_topic_id", "_value"])
def test_fields_called_like_a_column_of_each_record_are_refused_when_declared(field: str) -> None:
    with pytest.raises(
        ValueError, match=f"the schema of topic orders cannot have a field called {field}"
    ):
        TopicSpec(name="orders", schema=f"id BIGINT, {field} STRING")
