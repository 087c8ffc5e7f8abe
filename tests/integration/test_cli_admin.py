"""``tidelog topics``, ``groups`` and ``log`` against a cluster."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from log_service.client import BlockingProducer
from tests.helpers.broker_process import BrokerProcess
from tests.integration.command_line import Finished, as_json, run, start
from tests.integration.confluent import consumer, create_topic, produce, take

Command = Callable[..., Finished]
KAFKA_ID = re.compile(r"[A-Za-z0-9_-]{22}")


@pytest.fixture
def tidelog(bootstrap: str) -> Command:
    """Run a command against the shared cluster."""

    def call(*arguments: str, given: str = "") -> Finished:
        return run(arguments, bootstrap=bootstrap, given=given)

    return call


def test_a_topic_from_birth_to_death(tidelog: Command, name: str) -> None:
    created = tidelog("topics", "create", name, "-p", "2", "-c", "retention.ms=60000")
    assert re.fullmatch(rf"created {name} \({KAFKA_ID.pattern}\)\n", created.output)
    listed = {row["name"]: row for row in as_json(tidelog("topics", "list", "--json"))}
    assert listed[name]["partitions"] == 2
    assert listed[name]["topic_id"] in created.output
    described = as_json(tidelog("topics", "describe", name, "--json"))
    assert [(row["partition"], row["leader"], row["start"], row["end"]) for row in described] == [
        (0, 1, 0, 0),
        (1, 1, 0, 0),
    ]
    assert tidelog("topics", "alter", name, "-p", "3", "-c", "retention.ms=90000").exit_code == 0
    configs = {
        row["config"]: row
        for row in as_json(tidelog("topics", "describe", name, "--configs", "--json"))
    }
    assert configs["retention.ms"]["value"] == "90000"
    assert configs["retention.ms"]["documentation"]
    assert tidelog("topics", "alter", name, "--reset", "retention.ms").exit_code == 0
    assert tidelog("topics", "delete", name, given="y\n").output == f"deleted {name}\n"
    assert name not in tidelog("topics", "list").output


def test_what_was_done_is_told_to_programs(tidelog: Command, name: str) -> None:
    assert as_json(tidelog("topics", "create", name, "--dry-run", "--json")) == [name]
    assert name not in tidelog("topics", "list").output
    (created,) = as_json(tidelog("topics", "create", name, "-p", "1", "--json"))
    assert (created["name"], created["created"]) == (name, True)
    (again,) = as_json(tidelog("topics", "create", name, "--if-not-exists", "--json"))
    assert (again["created"], again["topic_id"]) == (False, None)
    changed = as_json(tidelog("topics", "alter", name, "-p", "2", "--json"))
    assert changed == {"name": name, "partitions": 2, "configs": {}}
    (configured,) = as_json(tidelog("configs", "set", "retention.ms=5", "--topic", name, "--json"))
    assert configured == {
        "resource": f"topic {name}",
        "changed": ["retention.ms"],
        "is_dry_run": False,
    }
    assert as_json(tidelog("topics", "delete", name, "-y", "--json")) == [name]


def test_a_topic_that_is_there_is_an_error_or_fine(tidelog: Command, topic: str) -> None:
    again = tidelog("topics", "create", topic)
    assert (again.exit_code, again.output) == (1, "")
    assert "already exists" in again.errors
    assert (
        tidelog("topics", "create", topic, "--if-not-exists").output
        == f"{topic} was there already\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topics", "create", "a/b"], "a/b"),
        (["topics", "create", "fresh", "-c", "retention.ms=soon"], "retention.ms"),
        (["topics", "create", "fresh", "-c", "colour=red"], "colour"),
        (["topics", "create", "fresh", "-r", "3"], "3"),
        (["topics", "describe", "nowhere"], "no such topic"),
        (["cluster", "log-dirs", "nowhere"], "no such topic"),
        (["groups", "list", "nowhere"], "there is no group 'nowhere'"),
        (["groups", "list", "nowhere", "--state", "Stable"], "there is no group 'nowhere'"),
        (["quotas", "remove", "-u", "nobody"], "user nobody has no quotas"),
        (
            ["quotas", "remove", "producer_byte_rate", "-u", "nobody"],
            "user nobody has no producer_byte_rate",
        ),
        (["topics", "delete", "nowhere", "-y"], "nowhere"),
        (["topics", "alter", "nowhere", "-p", "3"], "nowhere"),
        (["topics", "delete", "there-is-none-*", "-y"], "no topic matches 'there-is-none-*'"),
        (["topics", "describe", "there-is-none-*"], "no topic matches 'there-is-none-*'"),
        (["records", "delete", "nowhere", "-p", "0", "--before", "1", "-y"], "nowhere"),
        (["offsets", "nowhere"], "no such topic"),
        (["configs", "describe", "--topic", "nowhere"], "nowhere"),
        (["configs", "set", "retention.ms=1", "--topic", "nowhere"], "nowhere"),
        (["configs", "describe", "--broker", "1", "colour"], "broker 1 has no config 'colour'"),
        (["groups", "reset", "nobody", "--topic", "nowhere", "--to-latest"], "nowhere"),
        (["groups", "describe", "nobody"], "there is no group 'nobody'"),
        (["groups", "delete", "nobody", "-y"], "no such group"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_1(
    tidelog: Command, arguments: list[str], said: str
) -> None:
    finished = tidelog(*arguments)
    assert finished.exit_code == 1
    assert finished.output == ""
    assert finished.errors.startswith("Error: ")
    assert finished.errors.count("\n") == 1
    assert said in finished.errors


def test_nothing_that_is_like_that_is_said_so(tidelog: Command) -> None:
    assert tidelog("groups", "list", "--state", "Dead").output == "no group is in that state\n"
    assert (
        tidelog("quotas", "show", "-u", "nobody").output
        == "no quotas are set for user nobody; see: tidelog quotas set --help\n"
    )


def test_deleting_asks_first(tidelog: Command, topic: str) -> None:
    for answer in ("n\n", ""):
        finished = tidelog("topics", "delete", topic, given=answer)
        assert finished.exit_code == 1
        assert "nothing was deleted" in finished.errors
    assert topic in tidelog("topics", "list").output


def test_a_topic_that_is_not_there_is_not_asked_about(tidelog: Command, topic: str) -> None:
    refused = tidelog("topics", "delete", topic, "nowhere", given="y\n")
    assert (refused.exit_code, refused.output) == (1, "")
    assert "nowhere: there is no such topic" in refused.errors
    assert "Delete" not in refused.errors
    assert topic in tidelog("topics", "list").output


def test_an_internal_topic_that_is_there_is_fine_if_it_may_exist(
    tidelog: Command, name: str
) -> None:
    assert tidelog("consume", "-g", name, "--timeout", "5", name).exit_code in {0, 1}
    present = [
        row["name"]
        for row in as_json(tidelog("topics", "list", "--internal", "--json"))
        if row["name"].startswith("__")
    ]
    if "__consumer_offsets" in present:
        told = tidelog("topics", "create", "__consumer_offsets", "--if-not-exists")
        assert (told.exit_code, told.output) == (0, "__consumer_offsets was there already\n")


def test_a_server_that_is_away_beside_one_that_is_not_is_no_news(bootstrap: str) -> None:
    told = start(["topics", "list"], bootstrap=f"nowhere.invalid:1,127.0.0.1:1,{bootstrap}")
    _, errors = told.communicate(timeout=60)
    assert (told.returncode, errors) == (0, "")


def test_records_are_deleted(bootstrap: str, tidelog: Command, topic: str) -> None:
    produce(bootstrap, topic, [b"one", b"two"])
    refused = tidelog("records", "delete", topic, "-p", "0", "--before", "1", given="n\n")
    assert (refused.exit_code, refused.output) == (1, "")
    assert (
        tidelog("records", "delete", topic, "-p", "0", "--before", "1", "-y").output
        == f"{topic}-0 now begins at offset 1\n"
    )
    too_far = tidelog("records", "delete", topic, "-p", "0", "--before", "9", "-y")
    assert too_far.exit_code == 1
    assert "the log does not reach there" in too_far.errors
    assert as_json(tidelog("topics", "describe", topic, "--json"))[0]["start"] == 1


def test_a_group_and_its_lag(bootstrap: str, tidelog: Command, topic: str, name: str) -> None:
    produce(bootstrap, topic, [b"one", b"two", b"three"])
    member = consumer(bootstrap, name, client_id="reader")
    member.subscribe([topic])
    take(member, 3)
    member.commit(offsets=[member.assignment()[0].__class__(topic, 0, 1)], asynchronous=False)
    assert re.search(rf"{name}\s+Stable\s+consumer", tidelog("groups", "list").output)
    told = as_json(tidelog("groups", "describe", name, "--json"))
    assert told["state"] == "Stable"
    (row,) = told["offsets"]
    assert (row["topic"], row["committed"], row["end"], row["lag"], row["client"]) == (
        topic,
        1,
        3,
        2,
        "reader",
    )
    assert told["members"][0]["partitions"] == [f"{topic}-0"]
    assert "reader" in tidelog("groups", "describe", name, "--members").output
    busy = tidelog("groups", "delete", name, "-y")
    assert busy.exit_code == 1
    assert "the group has members" in busy.errors
    member.close()
    assert tidelog("groups", "list", "--state", "empty").output.count(name) == 1
    assert tidelog("groups", "delete", name, "-y").output == f"deleted {name}\n"
    assert tidelog("groups", "describe", name).exit_code == 1


def test_tables_fit_80_columns(tidelog: Command, tidelog_bootstrap: str) -> None:
    create_topic(tidelog_bootstrap, "wide")
    try:
        for arguments in (
            ["topics", "describe", "wide"],
            ["topics", "describe", "wide", "--configs"],
        ):
            assert max(map(len, tidelog(*arguments).lines)) <= 80
    finally:
        tidelog("topics", "delete", "wide", "-y")


def test_retention_is_applied_on_demand(
    tidelog_bootstrap: str, tidelog: Command, topic: str
) -> None:
    produce(tidelog_bootstrap, topic, [b"one"])
    (row,) = as_json(tidelog("topics", "apply-retention", topic, "--json"))
    assert (row["topic"], row["partition"], row["segments_deleted"]) == (topic, 0, 0)
    missing = tidelog("topics", "apply-retention", "nowhere")
    assert missing.exit_code == 1
    assert "nowhere: there is no such topic" in missing.errors


def test_compaction_is_applied_on_demand(
    tidelog_bootstrap: str, tidelog: Command, name: str
) -> None:
    create_topic(tidelog_bootstrap, name, cleanup_policy="compact", segment_ms="1")
    with BlockingProducer(tidelog_bootstrap, linger_ms=0) as producer:
        for number in range(4):
            producer.send(
                name, key=b"key", value=b"%d" % number, timestamp_ms=1_700_000_000_000 + 10 * number
            )
            producer.flush()
    (row,) = as_json(tidelog("topics", "apply-compaction", name, "--json"))
    assert (
        row["topic"],
        row["records_before"],
        row["records_after"],
        row["dirty_ratio_after"],
    ) == (name, 3, 1, 0.0)
    assert max(map(len, tidelog("topics", "apply-compaction", name).lines)) <= 80
    refused = tidelog("topics", "apply-compaction", "nowhere")
    assert "nowhere: there is no such topic" in refused.errors


def test_the_files_of_a_broker_are_dumped(broker: BrokerProcess, tmp_path: Path) -> None:
    produce(
        broker.bootstrap,
        "dumped",
        [b"one " * 50, b"two " * 50],
        compression_type="zstd",
        linger_ms=20,
    )
    assert broker.stop() == 0
    directory = broker.directory / "data"
    dumped = run(["log", "dump", str(directory / "dumped-0")])
    assert dumped.exit_code == 0
    files = [line.split(":")[0].rpartition("/")[2] for line in dumped.lines if "dumped-0/" in line]
    assert files[0].startswith(f"{0:020}.log "), "the segment comes before its indexes"
    assert "zstd" in dumped.output
    assert "valid" in dumped.output
    told = run(["log", "dump", "--records", "--json", str(directory / "dumped-0" / f"{0:020}.log")])
    assert [json.loads(line)["value"] for line in told.lines] == ["one " * 50, "two " * 50]
    metadata = run(
        [
            "log",
            "dump",
            "--records",
            "--decode",
            "metadata",
            str(directory / "__cluster_metadata-0" / f"{0:020}.log"),
        ]
    )
    assert metadata.exit_code == 0
    assert "TopicRecord" in metadata.output
    segment = directory / "dumped-0" / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes()[:-3])
    torn = run(["log", "dump", str(segment)])
    assert torn.exit_code == 1
    assert str(segment) in torn.errors
    assert "Traceback" not in torn.errors
