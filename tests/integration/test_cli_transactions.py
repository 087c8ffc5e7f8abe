"""``tidelog transactions`` against a real coordinator: what is open, what is done, and what hangs."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from log_service.cli.times import as_time
from log_service.client import BlockingAdmin, BlockingProducer, NewTopic
from tests.integration.client_clusters import CLUSTERS, cluster
from tests.integration.command_line import Finished, as_json, run
from tests.integration.transactional_writer import leave_hanging

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

PROPERTIES = {"transaction.partition.verification.enable": "false"}


@pytest.fixture(scope="module", params=CLUSTERS)
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with cluster(request.param, tmp_path_factory.mktemp("cluster"), PROPERTIES) as servers:
        with BlockingAdmin(servers) as admin:
            admin.create_topics([NewTopic(name="orders", partition_count=2, replication_factor=1)])
        yield servers


def told(bootstrap: str, *arguments: str) -> Finished:
    return run(["transactions", *arguments], bootstrap=bootstrap)


def test_control_records_are_printed_where_they_are_asked_for(bootstrap: str) -> None:
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name="ended", partition_count=1, replication_factor=1)])
    with BlockingProducer(bootstrap, transactional_id="ender") as producer:
        producer.init_transactions()
        for value, is_committed in ((b"1", True), (b"2", False)):
            producer.begin_transaction()
            producer.send("ended", value).wait()
            (producer.commit_transaction if is_committed else producer.abort_transaction)()

    def consumed(*options: str) -> Finished:
        return run(["consume", "ended", "-B", "-e", *options], bootstrap=bootstrap)

    assert consumed().output == "1\n2\n"
    lines = [json.loads(line) for line in consumed("--control", "--json").output.splitlines()]
    ends = [line["control"]["kind"] for line in lines if "value" not in line]
    assert (ends, [line["offset"] for line in lines]) == (["COMMIT", "ABORT"], [0, 1, 2, 3])
    producers = {line.get("control", line)["producer_id"] for line in lines}
    assert len(producers) == 1
    text = consumed("--control", "--read-committed", "-f", "{offset} {value}\n").output
    assert [line.split(" producer_id=")[0] for line in text.splitlines()] == [
        "0 1", "1 kind=COMMIT", "3 kind=ABORT",
    ]  # fmt: skip


def test_an_open_transaction_is_listed_and_described(bootstrap: str) -> None:
    with BlockingProducer(bootstrap, transactional_id="copy-0") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", b"1", partition=1).wait()
            (listed,) = as_json(told(bootstrap, "list", "--state", "ongoing", "--json"))
            assert (listed["transactional_id"], listed["state"]) == ("copy-0", "Ongoing")
            described: dict[str, Any] = as_json(told(bootstrap, "describe", "copy-0", "--json"))
            assert described["partitions"] == ["orders-1"]
            assert described["producer_id"] == listed["producer_id"]
            assert described["start_time_ms"] > 0
            header, row = told(bootstrap, "describe", "copy-0").output.splitlines()
            assert "START_TIME " in header
            assert as_time(described["start_time_ms"]) in row
            assert (
                told(bootstrap, "list", "--longer-than", "1h").output
                == "no transactional id is like that\n"
            )
            assert "copy-0" in told(bootstrap, "list", "--pattern", "copy-.*").output
    missing = told(bootstrap, "describe", "nobody")
    assert missing.exit_code == 1
    assert (
        "there is no such transactional id; see: tidelog transactions list (TRANSACTIONAL_ID_NOT_FOUND)"
        in missing.errors
    )
    wrong = told(bootstrap, "list", "--pattern", "(")
    assert "not a regular expression that the broker understands" in wrong.errors


def test_what_hangs_is_found_and_aborted(bootstrap: str) -> None:
    leave_hanging(bootstrap, "orders", "careless")
    assert told(bootstrap, "find-hanging").output == "no transaction hangs\n", "it is young"
    (found,) = as_json(
        told(bootstrap, "find-hanging", "--topic", "orders", "--open-for", "0s", "--json")
    )
    assert (found["topic"], found["partition"], found["transactional_id"]) == (
        "orders",
        0,
        "careless",
    )
    elsewhere = told(
        bootstrap, "abort", "orders:0", "--start-offset", str(found["start_offset"] + 1), "-y"
    )
    assert f"those that are open begin at {found['start_offset']}" in elsewhere.errors
    assert (
        told(
            bootstrap, "abort", "orders:0", "--start-offset", str(found["start_offset"]), "-y"
        ).exit_code
        == 0
    )
    assert told(bootstrap, "find-hanging", "--open-for", "0s").output == "no transaction hangs\n"
    assert (
        "there is no such topic"
        in told(bootstrap, "abort", "nothing:0", "--start-offset", "0", "-y").errors
    )
