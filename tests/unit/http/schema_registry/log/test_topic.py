"""The topic of schemas: how it is created, and which one is refused."""

import pytest

from log_service.http.schema_registry.log.topic import new_topic, topic_fault


@pytest.mark.parametrize(
    ("brokers", "replicas", "in_sync"), [(1, 1, None), (2, 2, None), (3, 3, "2"), (9, 3, "2")]
)
def test_a_new_topic_has_up_to_three_replicas(
    brokers: int, replicas: int, in_sync: str | None
) -> None:
    """With three replicas an acknowledged schema survives the loss of the leader."""
    topic = new_topic("_schemas", brokers)
    assert (topic.partition_count, topic.replication_factor) == (1, replicas)
    assert topic.configs["cleanup.policy"] == "compact"
    assert topic.configs.get("min.insync.replicas") == in_sync


def test_a_given_replication_factor_is_kept() -> None:
    """The cluster refuses it if it has fewer brokers."""
    assert new_topic("_schemas", 1, 3).replication_factor == 3


@pytest.mark.parametrize(
    ("partition_count", "policy", "named"),
    [
        (2, "compact", "2 partitions"),
        (1, "delete", "cleanup.policy=delete"),
        (1, "compact,delete", "cleanup.policy=compact,delete"),
    ],
)
def test_a_fault_is_a_sentence_that_says_what_to_do(
    partition_count: int, policy: str, named: str
) -> None:
    """It names the topic and the value."""
    fault = topic_fault("_schemas", partition_count, policy)
    assert fault is not None
    assert "_schemas" in fault
    assert named in fault


@pytest.mark.parametrize("policy", ["compact", " compact ", None])
def test_a_compacted_topic_with_one_partition_is_fine(policy: str | None) -> None:
    """A policy that this user may not see is no fault."""
    assert topic_fault("_schemas", 1, policy) is None
