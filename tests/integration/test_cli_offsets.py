"""``tidelog offsets``, ``records`` and ``groups reset`` against a cluster."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.command_line import Finished, run
from tests.integration.confluent import consumer, produce, take

Command = Callable[..., Finished]
MakeTopic = Callable[..., str]


@pytest.fixture
def tidelog(bootstrap: str) -> Command:
    """Run a command against the shared cluster."""

    def call(*arguments: str, given: str = "") -> Finished:
        return run(arguments, bootstrap=bootstrap, given=given)

    return call


def as_json(finished: Finished) -> Any:
    assert finished.exit_code == 0, finished.errors
    return json.loads(finished.output)


def committed(tidelog: Command, group: str) -> dict[tuple[str, int], int]:
    told = as_json(tidelog("groups", "describe", group, "--json"))
    return {(row["topic"], row["partition"]): row["committed"] for row in told["offsets"]}


@pytest.fixture
def group(bootstrap: str, tidelog: Command, topic: str, name: str) -> str:
    """A group without members that has read 4 of 10 records of one partition."""
    produce(bootstrap, topic, [str(number).encode() for number in range(10)])
    member = consumer(bootstrap, name)
    member.subscribe([topic])
    take(member, 10)
    member.commit(offsets=[member.assignment()[0].__class__(topic, 0, 4)], asynchronous=False)
    member.close()
    return name


def test_offsets_of_partitions(bootstrap: str, tidelog: Command, new_topic: MakeTopic) -> None:
    topic = new_topic(2)
    tidelog("produce", topic, "-p", "1", given="one\ntwo\n")
    rows = as_json(tidelog("offsets", topic, "--json"))
    assert [(row["partition"], row["start"], row["end"], row["records"]) for row in rows] == [
        (0, 0, 0, 0),
        (1, 0, 2, 2),
    ]
    assert [
        row["offset"] for row in as_json(tidelog("offsets", topic, "--at", "latest", "--json"))
    ] == [0, 2]
    assert [
        row["offset"]
        for row in as_json(tidelog("offsets", f"{topic}:1", "--at", "2001-01-01", "--json"))
    ] == [0]
    assert [
        row["offset"]
        for row in as_json(tidelog("offsets", f"{topic}:1", "--at", "2100-01-01", "--json"))
    ] == [None]
    (newest,) = as_json(tidelog("offsets", f"{topic}:1", "--at", "max-timestamp", "--json"))
    assert abs(newest["timestamp"] - time.time() * 1_000) < 60_000
    assert (
        f"{topic} has 2 partitions, numbered from 0: there is no 7"
        in tidelog("offsets", f"{topic}:0,7").errors
    )


def test_topics_by_pattern(tidelog: Command, name: str) -> None:
    names = [f"{name}-{suffix}" for suffix in ("a", "b", "other")]
    assert tidelog("topics", "create", *names).exit_code == 0
    assert [
        row["name"] for row in as_json(tidelog("topics", "list", f"{name}-?", "--json"))
    ] == names[:2]
    assert {row["topic"] for row in as_json(tidelog("offsets", f"{name}-*", "--json"))} == set(
        names
    )
    assert (
        tidelog("topics", "delete", f"{name}-?", given="y\n").output
        == f"deleted {names[0]}, {names[1]}\n"
    )
    assert [
        row["name"] for row in as_json(tidelog("topics", "list", f"{name}-*", "--json"))
    ] == names[2:]
    assert tidelog("topics", "delete", names[2], "-y").exit_code == 0


def test_a_reset_only_shows_what_it_would_do(tidelog: Command, topic: str, group: str) -> None:
    shown = tidelog("groups", "reset", group, "--topic", topic, "--to-earliest")
    assert shown.exit_code == 0
    assert "nothing was changed: --execute does it" in shown.errors
    assert committed(tidelog, group) == {(topic, 0): 4}


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 10),
        (["--to-current"], 4),
        (["--to-offset", "7"], 7),
        (["--shift-by", "-3"], 1),
        (["--shift-by", "100"], 10),
        (["--to-offset", "999"], 10),
        (["--to-time", "2001-01-01"], 0),
        (["--to-time", "2100-01-01"], 10),
        (["--by-duration", "1h"], 0),
    ],
)
def test_every_way_to_reset(
    tidelog: Command, topic: str, group: str, way: list[str], expected: int
) -> None:
    (moved,) = as_json(
        tidelog("groups", "reset", group, "--all-topics", *way, "--execute", "--json")
    )
    assert (moved["committed"], moved["new"], moved["lag"]) == (4, expected, 10 - expected)
    assert committed(tidelog, group) == {(topic, 0): expected}
    if "100" in way or "999" in way:
        assert moved["note"].endswith("is above the end")


def test_a_reset_is_exported_and_read_back(
    tidelog: Command, topic: str, group: str, tmp_path: Path
) -> None:
    exported = tidelog(
        "groups", "reset", group, "--topic", f"{topic}:0", "--to-offset", "6", "--export"
    )
    assert exported.output == f"{topic},0,6\n"
    path = tmp_path / "offsets.csv"
    path.write_text(exported.output)
    assert tidelog("groups", "reset", group, "--from-file", str(path), "--execute").exit_code == 0
    assert committed(tidelog, group) == {(topic, 0): 6}
    path.write_text("this is no offset\n")
    broken = tidelog("groups", "reset", group, "--from-file", str(path), "--execute")
    assert broken.exit_code == 1
    assert "line 1 is not topic,partition,offset" in broken.errors


def test_a_group_with_members_is_not_reset(
    bootstrap: str, tidelog: Command, topic: str, name: str
) -> None:
    produce(bootstrap, topic, [b"one"])
    member = consumer(bootstrap, name)
    member.subscribe([topic])
    take(member, 1)
    refused = tidelog("groups", "reset", name, "--topic", topic, "--to-earliest", "--execute")
    assert refused.exit_code == 1
    assert "it has members, stop them first" in refused.errors
    member.close()


def test_offsets_are_taken_back(bootstrap: str, tidelog: Command, topic: str, group: str) -> None:
    refused = tidelog("groups", "delete-offsets", group, "--topic", topic, given="n\n")
    assert (refused.exit_code, refused.output) == (1, "")
    assert (
        tidelog("groups", "delete-offsets", group, "--topic", f"{topic}:0", "-y").output
        == f"deleted the offsets of {group} for {topic}-0\n"
    )
    again = tidelog("groups", "delete-offsets", group, "--topic", topic, "-y")
    assert again.exit_code == 1
    assert "has committed nothing there" in again.errors


def test_offsets_that_members_need_are_not_taken_back(
    bootstrap: str, tidelog: Command, topic: str, name: str
) -> None:
    produce(bootstrap, topic, [b"one"])
    member = consumer(bootstrap, name)
    member.subscribe([topic])
    take(member, 1)
    member.commit(asynchronous=False)
    refused = tidelog("groups", "delete-offsets", name, "--topic", topic, "-y")
    member.close()
    assert refused.exit_code == 1
    assert (
        "the group's members read that topic: stop them first (GROUP_SUBSCRIBED_TO_TOPIC)"
        in refused.errors
    )


def test_offsets_are_committed_for_a_group_that_is_not_there_yet(
    tidelog: Command, topic: str, name: str
) -> None:
    assert (
        tidelog("groups", "reset", name, "--topic", topic, "--to-earliest", "--execute").exit_code
        == 0
    )
    assert committed(tidelog, name) == {(topic, 0): 0}
    assert as_json(tidelog("groups", "describe", name, "--json"))["state"] == "Empty"
    assert tidelog("groups", "describe", name, "--state").output.splitlines()[0].split() == [
        "GROUP_ID", "STATE", "ASSIGNOR", "MEMBERS", "PARTITIONS", "LAG",
    ]  # fmt: skip


def test_records_of_many_partitions_are_deleted(
    bootstrap: str, tidelog: Command, new_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    for partition in (0, 1):
        tidelog("produce", topic, "-p", str(partition), given="one\ntwo\n")
    path = tmp_path / "offsets.json"
    partitions = [
        {"topic": topic, "partition": 0, "offset": 1},
        {"topic": topic, "partition": 1, "offset": -1},
    ]
    path.write_text(json.dumps({"partitions": partitions, "version": 1}))
    deleted = as_json(tidelog("records", "delete", "--from-file", str(path), "-y", "--json"))
    assert [(row["partition"], row["start"]) for row in deleted] == [(0, 1), (1, 2)]
    path.write_text("[]")
    assert "is not like" in tidelog("records", "delete", "--from-file", str(path), "-y").errors


def test_a_group_that_does_not_exist_is_said_not_to_when_it_is_reset(
    tidelog: Command, group: str, topic: str
) -> None:
    slip = f"{group}s"
    shown = tidelog("groups", "reset", slip, "--topic", topic, "--to-earliest")
    assert f"note: there is no group {slip}; did you mean {group}?" in shown.errors
    assert (
        "there is no group"
        not in tidelog("groups", "reset", group, "--topic", topic, "--to-earliest").errors
    )
    done = tidelog("groups", "reset", slip, "--topic", topic, "--to-earliest", "--execute")
    assert f"note: there was no group {slip}: it is made with these offsets" in done.errors
    assert (
        "note" not in tidelog("groups", "reset", slip, "--topic", topic, "--to-earliest").errors
    ), "it is there now"
