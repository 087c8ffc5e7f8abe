"""``tidelog cluster`` against a cluster."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.command_line import Finished, run

Command = Callable[..., Finished]


@pytest.fixture
def tidelog(bootstrap: str) -> Command:
    """Run a command against the shared cluster."""

    def call(*arguments: str, given: str = "") -> Finished:
        return run(arguments, bootstrap=bootstrap, given=given)

    return call


def as_json(finished: Finished) -> Any:
    assert finished.exit_code == 0, finished.errors
    return json.loads(finished.output)


def test_the_cluster_and_its_brokers(tidelog: Command, bootstrap: str) -> None:
    told = as_json(tidelog("cluster", "describe", "--json"))
    assert told["brokers"][0]["port"] == int(bootstrap.rpartition(":")[2])
    assert told["cluster_id"] in tidelog("cluster", "describe").output


def test_apis_and_features_of_a_broker(tidelog: Command) -> None:
    versions = {
        row["api"]: (row["first"], row["last"])
        for row in as_json(tidelog("cluster", "api-versions", "--broker", "1", "--json"))
    }
    assert versions["Produce"] == (0, 13)
    assert versions["ApiVersions"] == (0, 4)
    features = {row["feature"]: row for row in as_json(tidelog("cluster", "features", "--json"))}
    assert features["metadata.version"]["level"] is not None
    unknown = tidelog("cluster", "features", "--broker", "77")
    assert (unknown.exit_code, unknown.output) == (1, "")
    assert "there is no broker 77; there are 1" in unknown.errors


def test_a_feature_level_that_cannot_be_is_refused(tidelog: Command) -> None:
    refused = tidelog("cluster", "features", "--set", "metadata.version=9999", "--dry-run")
    assert refused.exit_code == 1
    assert "metadata.version" in refused.errors


def test_the_quorum(tidelog: Command) -> None:
    told = as_json(tidelog("cluster", "quorum", "--json"))
    assert told["leader_id"] == 1
    assert [(row["node_id"], row["role"], row["lag"]) for row in told["replicas"]] == [
        (1, "leader", 0)
    ]
    assert tidelog("cluster", "quorum").output.startswith("leader 1  epoch ")


def test_log_directories_and_what_is_in_them(tidelog: Command, topic: str) -> None:
    tidelog("produce", topic, given="one\ntwo\n")
    (directory, *_) = as_json(tidelog("cluster", "log-dirs", "--json"))
    assert directory["state"] == "online"
    assert directory["total_bytes"] >= directory["usable_bytes"] > 0
    (replica,) = as_json(tidelog("cluster", "log-dirs", topic, "--json"))
    assert (replica["topic"], replica["partition"], replica["future"]) == (topic, 0, False)
    assert replica["size_bytes"] > 0
    assert all(len(line) <= 80 for line in tidelog("cluster", "log-dirs").lines)


def test_producers_of_a_partition(tidelog: Command, topic: str) -> None:
    assert tidelog("produce", topic, given="one\n").exit_code == 0
    (producer,) = as_json(tidelog("cluster", "producers", topic, "--json"))
    assert (producer["topic"], producer["last_sequence"], producer["transaction_start"]) == (
        topic,
        0,
        None,
    )


def test_nothing_to_elect_and_nothing_that_moves(tidelog: Command, topic: str) -> None:
    assert tidelog("cluster", "elect", topic).output == "no election was needed\n"
    assert as_json(tidelog("cluster", "elect", "--json")) == []
    assert tidelog("cluster", "reassign").output == "nothing moves\n"
    refused = tidelog("cluster", "reassign", topic, "--to", "99")
    assert refused.exit_code == 1
    assert "99" in refused.errors
    unclean = tidelog("cluster", "elect", topic, "--unclean", given="n\n")
    assert unclean.exit_code == 1
    assert "nothing was elected" in unclean.errors


def test_a_broker_that_is_not_there_is_not_forgotten(tidelog: Command) -> None:
    refused = tidelog("cluster", "unregister", "77", "-y")
    assert refused.exit_code == 1
    assert "77" in refused.errors


def test_a_broker_that_serves_is_not_forgotten(tidelog: Command) -> None:
    refused = tidelog("cluster", "unregister", "1", "-y")
    assert (refused.exit_code, refused.output) == (1, "")
    assert "broker 1 serves" in refused.errors
    assert "tidelog cluster remove 1" in refused.errors
