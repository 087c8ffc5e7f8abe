"""``tidelog configs`` against a cluster."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.command_line import Finished, run

Command = Callable[..., Finished]


@pytest.fixture
def tidelog(bootstrap: str) -> Command:
    """Run a command against the shared cluster; it must succeed."""

    def call(*arguments: str) -> Finished:
        finished = run(arguments, bootstrap=bootstrap)
        assert finished.exit_code == 0, finished.errors
        return finished

    return call


def told(tidelog: Command, *arguments: str) -> dict[str, Any]:
    """Configs of one resource by key."""
    return {
        row["config"]: row
        for row in json.loads(tidelog("configs", "describe", *arguments, "--json").output)
    }


def test_a_config_is_set_shown_and_unset(tidelog: Command, topic: str) -> None:
    assert (
        tidelog("configs", "set", "retention.ms=60000", "--topic", topic).output
        == f"set retention.ms on topic {topic}\n"
    )
    found = told(tidelog, "--topic", topic)["retention.ms"]
    assert (found["value"], found["source"], found["is_default"]) == (
        "60000",
        "DYNAMIC_TOPIC_CONFIG",
        False,
    )
    assert found["synonyms"][0] == {
        "name": "retention.ms",
        "value": "60000",
        "source": "DYNAMIC_TOPIC_CONFIG",
    }
    assert f"topic {topic}" in tidelog("configs", "list").output
    tidelog("configs", "unset", "retention.ms", "--topic", topic)
    assert "retention.ms" not in told(tidelog, "--topic", topic)
    assert "retention.ms" in told(tidelog, "--topic", topic, "--all")


def test_lists_grow_and_shrink(tidelog: Command, topic: str) -> None:
    tidelog("configs", "set", "cleanup.policy=delete", "--topic", topic)
    tidelog("configs", "append", "cleanup.policy=compact", "--topic", topic)
    assert (
        told(tidelog, "--topic", topic, "cleanup.policy")["cleanup.policy"]["value"]
        == "delete,compact"
    )
    tidelog("configs", "subtract", "cleanup.policy=delete", "--topic", topic)
    assert told(tidelog, "--topic", topic, "cleanup.policy")["cleanup.policy"]["value"] == "compact"


def test_a_dry_run_changes_nothing(tidelog: Command, topic: str, bootstrap: str) -> None:
    assert tidelog(
        "configs", "set", "retention.ms=1", "--topic", topic, "--dry-run"
    ).output.startswith("this would be accepted")
    assert "retention.ms" not in told(tidelog, "--topic", topic)
    refused = run(
        ["configs", "set", "retention.ms=soon", "--topic", topic, "--dry-run"], bootstrap=bootstrap
    )
    assert refused.exit_code == 1
    assert "retention.ms" in refused.errors


def test_several_topics_are_changed_by_pattern(tidelog: Command, name: str) -> None:
    tidelog("topics", "create", f"{name}-a", f"{name}-b")
    assert (
        tidelog("configs", "set", "retention.ms=1000", "--topic", f"{name}-*").output
        == "set retention.ms on 2 resources\n"
    )
    deadline = time.monotonic() + 10
    while (
        tidelog("configs", "describe", "--topic", f"{name}-*", "retention.ms").output.count("1000")
        != 2
    ):
        assert time.monotonic() < deadline
    tidelog("topics", "delete", f"{name}-*", "-y")


def test_a_cluster_default_holds_for_brokers(tidelog: Command) -> None:
    tidelog("configs", "set", "log.retention.ms=123456", "--cluster-default")
    try:
        deadline = time.monotonic() + 10
        while (found := told(tidelog, "--broker", "1", "log.retention.ms")["log.retention.ms"])[
            "value"
        ] != "123456":
            assert time.monotonic() < deadline, "brokers hear of it soon after it was accepted"
        assert found["source"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
        assert "cluster default" in tidelog("configs", "list").output
        with_synonyms = tidelog(
            "configs", "describe", "--broker", "1", "log.retention.ms", "--synonyms"
        ).output
        assert "cluster" in with_synonyms
        assert "  log.retention.hours" in with_synonyms
    finally:
        tidelog("configs", "unset", "log.retention.ms", "--cluster-default")
    deadline = time.monotonic() + 10
    while "cluster default  log.retention.ms" in tidelog("configs", "list").output:
        assert time.monotonic() < deadline


def test_tables_fit_80_columns(tidelog: Command, topic: str) -> None:
    for arguments in (
        ["--topic", topic, "--all"],
        ["--broker", "1", "--all"],
        ["--topic", topic, "--topic", topic, "--all", "--synonyms"],
    ):
        longest = max(tidelog("configs", "describe", *arguments).lines, key=len)
        assert len(longest) <= 80, longest


def test_a_secret_comes_from_the_standard_input(bootstrap: str) -> None:
    key = "listener.name.nobody.ssl.key.password"
    finished = run(
        ["configs", "set", f"{key}=@-", "--broker", "1"], bootstrap=bootstrap, given="planted\n"
    )
    assert (finished.exit_code, finished.errors) == (0, "")
    warned = run(["configs", "set", f"{key}=planted", "--broker", "1"], bootstrap=bootstrap)
    assert warned.exit_code == 0
    assert "stands in the list of processes" in warned.errors
    run(["configs", "unset", key, "--broker", "1"], bootstrap=bootstrap)
