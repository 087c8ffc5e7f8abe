"""kcat, as people use it at a terminal. Debian's package; without it these tests skip, and say so."""

import json
import shutil
import subprocess
from collections.abc import Callable

import pytest

from tests.integration.confluent import WAIT_SECONDS

KCAT = shutil.which("kcat") or shutil.which("kafkacat") or ""
MakeTopic = Callable[..., str]
Kcat = Callable[..., str]

pytestmark = pytest.mark.skipif(
    not KCAT,
    reason="kcat is not installed (Debian: apt-get install kcat): nothing was tested with it",
)


@pytest.fixture
def kcat(bootstrap: str) -> Kcat:
    """Run kcat with these arguments and return what it prints."""

    def call(*arguments: str, given: str = "") -> str:
        command = [KCAT, "-b", bootstrap, *arguments]
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            text=True,
            timeout=2 * WAIT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_go_in_and_come_out(kcat: Kcat, topic: str, codec: str) -> None:
    lines = [f"line {number}" for number in range(200)]
    kcat("-P", "-t", topic, "-z", codec, given="\n".join(lines))
    assert kcat("-C", "-t", topic, "-o", "beginning", "-e", "-q").splitlines() == lines


def test_keys_headers_and_nulls(kcat: Kcat, topic: str) -> None:
    kcat("-P", "-t", topic, "-K", ":", "-H", "trace=7", "-Z", given="a:one\nb:\n")
    shown = kcat(
        "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-Z", "-f", "%o %k %s %h\n"
    ).splitlines()
    assert shown == ["0 a one trace=7", "1 b NULL trace=7"]


@pytest.mark.parametrize(
    ("offset", "expected"), [("3", ["3", "4"]), ("-2", ["3", "4"]), ("end", [])]
)
def test_reading_starts_where_it_is_told(
    kcat: Kcat, topic: str, offset: str, expected: list[str]
) -> None:
    kcat("-P", "-t", topic, given="0\n1\n2\n3\n4\n")
    assert kcat("-C", "-t", topic, "-p", "0", "-o", offset, "-e", "-q").splitlines() == expected


def test_reading_starts_at_a_time(kcat: Kcat, topic: str) -> None:
    kcat("-P", "-t", topic, given="0\n1\n")
    assert kcat("-C", "-t", topic, "-o", "s@1000000000000", "-e", "-q").splitlines() == ["0", "1"]
    assert (
        kcat(
            "-C", "-t", topic, "-o", "s@1000000000000", "-o", "e@1000000000001", "-e", "-q"
        ).splitlines()
        == []
    )


def test_metadata_is_listed(kcat: Kcat, new_topic: MakeTopic, bootstrap: str) -> None:
    topic = new_topic(partitions=3)
    told = json.loads(kcat("-L", "-t", topic, "-J"))
    assert [(broker["id"], broker["name"]) for broker in told["brokers"]] == [(1, bootstrap)]
    (found,) = told["topics"]
    assert [(one["partition"], one["leader"]) for one in found["partitions"]] == [
        (0, 1),
        (1, 1),
        (2, 1),
    ]


def test_offsets_are_queried_by_time(kcat: Kcat, topic: str) -> None:
    kcat("-P", "-t", topic, given="0\n1\n")
    assert "offset 2" in kcat("-Q", "-t", f"{topic}:0:-1")
    assert "offset 0" in kcat("-Q", "-t", f"{topic}:0:1000000000000")


def test_a_balanced_consumer_reads_in_a_group(kcat: Kcat, topic: str, name: str) -> None:
    kcat("-P", "-t", topic, given="0\n1\n2\n")
    settings = ("-X", "auto.offset.reset=earliest", "-q", "-e")
    assert kcat("-G", name, *settings, topic).splitlines() == ["0", "1", "2"]
    kcat("-P", "-t", topic, given="3\n")
    assert kcat("-G", name, *settings, topic).splitlines() == ["3"]


def test_an_idempotent_producer_with_acks_all(kcat: Kcat, topic: str) -> None:
    kcat(
        "-P",
        "-t",
        topic,
        "-X",
        "enable.idempotence=true",
        "-X",
        "acks=all",
        given="".join(f"{n}\n" for n in range(1_000)),
    )
    assert len(kcat("-C", "-t", topic, "-o", "beginning", "-e", "-q").splitlines()) == 1_000
