"""``tidelog produce`` and ``tidelog consume`` against a cluster."""

import fcntl
import json
import signal
import struct
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.helpers.broker_process import BrokerProcess
from tests.helpers.unreadable_batches import garble
from tests.integration.command_line import Finished, run, start
from tests.integration.confluent import WAIT_SECONDS, consumer, produce, read_records

Command = Callable[..., Finished]
MakeTopic = Callable[..., str]
FULL_PIPE_BYTES = 60_000
"""A pipe of Linux holds 64 KiB."""


@pytest.fixture
def tidelog(bootstrap: str) -> Command:
    """Run a command against the shared cluster; it must succeed."""

    def call(*arguments: str, given: str = "") -> Finished:
        finished = run(arguments, bootstrap=bootstrap, given=given)
        assert finished.exit_code == 0, finished.errors
        return finished

    return call


def numbered(bootstrap: str, topic: str, count: int = 10) -> None:
    produce(bootstrap, topic, [str(number).encode() for number in range(count)])


def test_lines_go_in_and_come_out(tidelog: Command, topic: str) -> None:
    assert tidelog("produce", topic, given="one\ntwo\n\nthree").errors == "4 records acknowledged\n"
    finished = tidelog("consume", topic, "--from-beginning", "--exit-at-end")
    assert finished.output == "one\ntwo\n\nthree\n"
    assert finished.errors == "4 records\n"


@pytest.mark.parametrize("given", ["", "one\n"])
def test_a_partition_that_the_topic_does_not_have_is_refused_before_a_line_is_read(
    bootstrap: str, new_topic: MakeTopic, given: str
) -> None:
    """The producer waited for the partition, half a minute, and without a line nothing was said at
    all.
    """
    name = new_topic(2)
    finished = run(["produce", name, "-p", "77"], bootstrap=bootstrap, given=given)
    assert finished.exit_code == 1
    assert f"topic '{name}' has partitions 0 to 1, not 77; nothing was sent" in finished.errors


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_and_acks_is_accepted(tidelog: Command, topic: str, codec: str) -> None:
    for acks in ("0", "1", "all"):
        tidelog("produce", topic, "--compression", codec, "--acks", acks, given="x\n" * 50)
    assert len(tidelog("consume", topic, "-B", "-n", "150").lines) == 150


def test_keys_headers_and_tombstones(bootstrap: str, tidelog: Command, topic: str) -> None:
    tidelog(
        "produce",
        topic,
        "-k",
        ":",
        "-H",
        "trace=1",
        "-H",
        "trace=",
        "--tombstones",
        given="a:1\nb:\n",
    )
    first, second = read_records(bootstrap, topic, 2)
    assert (first.key(), first.value(), first.headers()) == (
        b"a",
        b"1",
        [("trace", b"1"), ("trace", b"")],
    )
    assert (second.key(), second.value()) == (b"b", None)
    assert tidelog("consume", topic, "-B", "-e", "-k", "=").lines == ["a=1", "b=null"]


def test_files_are_records_and_keys_and_nulls_are_said(
    bootstrap: str, tidelog: Command, topic: str, tmp_path: Path
) -> None:
    paths = [tmp_path / name for name in ("one", "two")]
    for path in paths:
        path.write_bytes(f"{path.name}\n\n".encode())
    options = [option for path in paths for option in ("-f", str(path))]
    assert (
        tidelog("produce", topic, "--whole-files", "--key", "k", *options).errors
        == "2 records acknowledged\n"
    )
    tidelog("produce", topic, *options)
    tidelog("produce", topic, "-k", ":", "--null", "NULL", given="a:NULL\nNULL:b\n")
    found = [(each.key(), each.value()) for each in read_records(bootstrap, topic, 8)]
    assert found[:2] == [(b"k", b"one\n\n"), (b"k", b"two\n\n")]
    assert found[2:6] == [(None, b"one"), (None, b""), (None, b"two"), (None, b"")]
    assert found[6:] == [(b"a", None), (None, b"b")]


def test_several_topics_are_read_together(bootstrap: str, tidelog: Command, name: str) -> None:
    for suffix in ("a", "b"):
        tidelog("topics", "create", f"{name}-{suffix}")
        tidelog("produce", f"{name}-{suffix}", given=f"{suffix}\n")
    read = tidelog("consume", f"{name}-*", "-B", "-e", "-f", r"%t %s\n").lines
    assert sorted(read) == [f"{name}-a a", f"{name}-b b"]
    tidelog("topics", "delete", f"{name}-*", "-y")


def test_a_topic_is_copied_through_json(
    bootstrap: str, tidelog: Command, new_topic: MakeTopic
) -> None:
    source, copy = new_topic(), new_topic()
    produce(bootstrap, source, ["schön".encode(), b"\xff\x00", b""])
    printed = tidelog("consume", source, "-B", "-e", "--json").output
    assert [json.loads(line)["value"] for line in printed.splitlines()] == [
        "schön",
        {"base64": "/wA="},
        "",
    ]
    tidelog("produce", copy, "--json", given=printed)
    originals, copies = read_records(bootstrap, source, 3), read_records(bootstrap, copy, 3)
    assert [(one.value(), one.timestamp()) for one in copies] == [
        (one.value(), one.timestamp()) for one in originals
    ]


def test_a_line_that_is_no_record_stops_and_tells_what_was_sent(
    bootstrap: str, tidelog: Command, topic: str
) -> None:
    finished = run(
        ["produce", topic, "-k", ":"], bootstrap=bootstrap, given="a:1\nb:2\nnothing\nc:3\n"
    )
    assert finished.exit_code == 1
    assert (
        finished.errors
        == "Error: line 3 has no ':' between key and value; the 2 before it were sent, nothing after it\n"
    )
    assert tidelog("consume", topic, "-B", "-e").lines == ["1", "2"]


def test_a_record_that_is_refused_is_told(bootstrap: str, new_topic: MakeTopic) -> None:
    topic = new_topic(max_message_bytes="1000")
    finished = run(["produce", topic], bootstrap=bootstrap, given="x" * 5_000)
    assert finished.exit_code == 1
    assert "1 of 1 records were not acknowledged" in finished.errors
    assert "Traceback" not in finished.errors


def test_reading_starts_where_it_is_told(bootstrap: str, tidelog: Command, topic: str) -> None:
    numbered(bootstrap, topic)
    assert tidelog("consume", topic, "-p", "0", "-o", "7", "-e").lines == ["7", "8", "9"]
    assert tidelog("consume", topic, "-o", "-2", "-e").lines == ["8", "9"]
    assert tidelog("consume", topic, "-o", "-99", "-n", "2").lines == ["0", "1"]
    assert tidelog("consume", topic, "-e").lines == []
    assert tidelog("consume", topic, "--from-time", "2020-01-01", "-n", "1").lines == ["0"]
    assert tidelog("consume", topic, "--from-time", "2100-01-01", "-e").lines == []


def test_an_offset_beyond_the_end_is_refused(bootstrap: str, topic: str) -> None:
    numbered(bootstrap, topic)
    finished = run(["consume", topic, "-o", "11"], bootstrap=bootstrap)
    assert finished.exit_code == 1
    assert finished.errors == f"Error: {topic}-0 reaches from offset 0 to 10: there is no 11\n"


def test_an_empty_topic_ends_at_once(tidelog: Command, topic: str) -> None:
    assert tidelog("consume", topic, "-B", "-e").errors == "0 records\n"


def test_reading_ends_after_a_silence(bootstrap: str, tidelog: Command, topic: str) -> None:
    numbered(bootstrap, topic, 3)
    assert tidelog("consume", topic, "-B", "--timeout", "0.7").lines == ["0", "1", "2"]


def test_only_the_partitions_that_are_named_are_read(
    bootstrap: str, tidelog: Command, new_topic: MakeTopic
) -> None:
    topic = new_topic(partitions=3)
    for partition in range(3):
        tidelog("produce", topic, "-p", str(partition), given=f"{partition}\n")
    assert sorted(tidelog("consume", topic, "-B", "-e", "-p", "0", "-p", "2").lines) == ["0", "2"]
    finished = run(["consume", topic, "-p", "3"], bootstrap=bootstrap)
    assert finished.exit_code == 1
    assert "has 3 partitions, numbered from 0: there is no 3" in finished.errors


def test_a_template_is_filled(bootstrap: str, tidelog: Command, topic: str) -> None:
    numbered(bootstrap, topic, 2)
    assert (
        tidelog("consume", topic, "-B", "-e", "-f", r"{topic}/{partition}@{offset}={value};").output
        == f"{topic}/0@0=0;{topic}/0@1=1;"
    )


def test_a_group_commits_what_it_printed(
    bootstrap: str, tidelog: Command, topic: str, name: str
) -> None:
    numbered(bootstrap, topic)
    assert tidelog("consume", topic, "-g", name, "-B", "-n", "4").lines == ["0", "1", "2", "3"]
    assert tidelog("consume", topic, "-g", name, "-B", "-e").lines == ["4", "5", "6", "7", "8", "9"]
    assert tidelog("consume", topic, "-g", name, "-B", "-e").lines == []


def test_ctrl_c_commits_what_was_printed_and_exits_with_130(
    bootstrap: str, topic: str, name: str
) -> None:
    numbered(bootstrap, topic, 3)
    process = start(["consume", topic, "-g", name, "-B"], bootstrap=bootstrap)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(3)] == ["0\n", "1\n", "2\n"]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 130
    assert errors == "3 records\ninterrupted\n"
    source = consumer(bootstrap, name)
    (found,) = source.committed([TopicPartition(topic, 0)], WAIT_SECONDS)
    source.close()
    assert found.offset == 3


def test_ctrl_c_prints_all_records_that_it_commits_while_the_output_is_held_up(
    bootstrap: str, topic: str, name: str
) -> None:
    """A pager that did not read got a part of the last records, and the group committed all of
    them.
    """
    produce(bootstrap, topic, [b"x" * 1_000] * 2_000)
    process = start(["consume", topic, "-g", name, "-B"], bootstrap=bootstrap)
    assert process.stdout is not None
    deadline = time.monotonic() + WAIT_SECONDS
    while waiting_bytes(process.stdout.fileno()) < FULL_PIPE_BYTES:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 130
    assert errors == f"{output.count('x' * 1_000):,} records\ninterrupted\n"


def waiting_bytes(pipe: int) -> int:
    """Return the number of bytes that lie in a pipe."""
    return int(struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0])


def test_a_reader_that_goes_away_is_no_error(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [b"x" * 1_000] * 2_000)
    process = start(["consume", topic, "-B", "-e"], bootstrap=bootstrap)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    process.wait(WAIT_SECONDS)
    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()
    assert errors == ""
    assert process.returncode == 0


def test_a_topic_that_is_not_there_is_told_and_not_made(
    bootstrap: str, tidelog: Command, name: str
) -> None:
    finished = run(["consume", name], bootstrap=bootstrap)
    assert finished.exit_code == 1
    assert "there is no such topic or partition" in finished.errors
    assert name not in tidelog("topics", "list").output


def test_a_batch_that_cannot_be_read_is_named_and_skipped_on_request(broker: BrokerProcess) -> None:
    topic = "unreadable"
    for value in (b"before", b"garbled", b"behind"):
        produce(broker.bootstrap, topic, [value])
    broker.stop()
    garble(broker.directory / "data" / f"{topic}-0" / f"{0:020d}.log", 1)
    bootstrap = broker.start().bootstrap
    refused = run(["consume", topic, "-B", "-e"], bootstrap=bootstrap)
    assert (refused.exit_code, refused.lines) == (1, ["before"])
    assert f"{topic}-0: the batch at offsets 1 to 1 cannot be read" in refused.errors
    assert "--skip-corrupt" in refused.errors
    with start(["consume", topic, "-B", "-e", "--skip-corrupt"], bootstrap=bootstrap) as process:
        output, errors = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, output) == (0, "before\nbehind\n")
    assert "offsets 1 to 1 are skipped" in errors
