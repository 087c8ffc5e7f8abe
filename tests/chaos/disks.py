"""Disks harm a running and a stopped node.

They fill up, turn read-only, and lose files. A case is a function of a folder that raises
``AssertionError`` where a promise is broken: an error must be told (to the client, in the log or by
the exit code), what was acknowledged is served or refused, and no record is ever left out without a
word. ``UnfitError`` says what this machine lacks for a case.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import confluent_kafka

from tests.helpers.broker_process import BrokerProcess, NotStartedError, run_to_its_end
from tests.integration.confluent import Sent, consumer, create_topic, produce

TOPIC = "kept"
PROPERTIES = {
    "log.flush.interval.messages": "1",
    "log.segment.bytes": "1048576",
    "log.index.interval.bytes": "4096",
}
VALUE_BYTES = 20_000
SMALL_DISK = "90m"
"""A node stops taking records while it still has 64 MiB for everything else."""
FIRST_RECORDS = 150
WAIT_SECONDS = 20.0


class UnfitError(Exception):
    """This machine cannot play the case; the text says why."""


@contextmanager
def small_disk(folder: Path, size: str = SMALL_DISK) -> Iterator[Path]:
    """A small file system of its own, in memory. Needs root."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0 or shutil.which("mount") is None:
        raise UnfitError("mounting a small file system needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tidelog-chaos", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        raise UnfitError(
            f"no small file system can be mounted here: {mounted.stderr.decode().strip()}"
        )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def value(number: int) -> bytes:
    """A record that names its number, and has some weight."""
    return b"%d:" % number + b"x" * VALUE_BYTES


def fill(bootstrap: str, count: int, first: int = 0) -> None:
    """Produce so many records, one batch each, in order, all acknowledged."""
    produce(
        bootstrap,
        TOPIC,
        [value(number) for number in range(first, first + count)],
        batch_num_messages=1,
        enable_idempotence=True,
    )


def read_until_told(
    bootstrap: str, count: int, seconds: float = WAIT_SECONDS
) -> tuple[list[tuple[int, int]], list[str]]:
    """Read from the beginning to the first error or the end.

    Return (offset, number) of each record, and the errors.
    """
    source = consumer(
        bootstrap, "judge", auto_offset_reset="error", check_crcs=True, fetch_wait_max_ms=100
    )
    source.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    found: list[tuple[int, int]] = []
    errors: list[str] = []
    deadline = time.monotonic() + seconds
    while len(found) < count and not errors and time.monotonic() < deadline:
        for record in source.consume(100, 0.5):
            if record.error() is not None:
                errors.append(str(record.error()))
            else:
                found.append((record.offset(), int(record.value().partition(b":")[0])))
    source.close()
    return found, errors


def assert_no_silent_gap(broker: BrokerProcess, count: int, *, log_before: int = 0) -> bool:
    """All is served, or what is served is whole up to where an error is told; returns whether all
    was.
    """
    found, errors = read_until_told(broker.bootstrap, count, seconds=3.0)
    assert found == [(number, number) for number in range(len(found))], (
        f"records were left out or changed: {_first_wrong(found)}"
    )
    if len(found) == count:
        return True
    assert errors or told(broker.log[log_before:]), (
        f"only {len(found)} of {count} records are served, and nobody says why"
    )
    return False


def _first_wrong(found: list[tuple[int, int]]) -> str:
    return next(
        (
            f"{pair} where {place} was due"
            for place, pair in enumerate(found)
            if pair != (place, place)
        ),
        "",
    )


def told(log: str) -> bool:
    """Whether a log says that something is wrong with the topic's files."""
    assert "Traceback" not in log, log[log.index("Traceback") :][:2_000]
    return any(
        TOPIC in line
        and ("WARNING" in line or "ERROR" in line or "damaged" in line or "missing" in line)
        for line in log.splitlines()
    )


def partition_files(data: Path, suffix: str) -> list[Path]:
    """The files of the topic's only partition, in order."""
    return sorted((data / f"{TOPIC}-0").glob(f"*{suffix}"))


# Cases


def full_disk(folder: Path) -> None:
    """Fill the disk.

    Writes are refused with an error before it is full, acknowledged records are read, and room
    makes it go on.
    """
    with (
        small_disk(folder / "disk") as disk,
        BrokerProcess(folder, properties={**PROPERTIES, "log.dirs": str(disk / "data")}) as broker,
    ):
        create_topic(broker.bootstrap, TOPIC)
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(10 << 20))
        sent = Sent(
            broker.bootstrap,
            batch_num_messages=1,
            enable_idempotence=False,
            message_timeout_ms=3_000,
            retries=0,
            linger_ms=0,
        )
        for number in range(2_000):
            sent.send(TOPIC, value(number))
        sent.flush_quietly(30)
        assert sent.failed, (
            "a disk of 90 MiB took 40 MiB beside 64 MiB of reserve and 10 MiB of somebody else's"
        )
        accepted = {
            record.offset(): int(record.value().partition(b":")[0]) for record in sent.delivered
        }
        found, errors = read_until_told(broker.bootstrap, len(accepted))
        assert dict(found) == accepted, f"what was acknowledged is not what is read: {errors}"
        ballast.unlink()
        goes_on(broker, len(found))
        broker.kill()
        broker.start()
        again, errors = read_until_told(broker.bootstrap, len(found) + 1)
        assert again[: len(found)] == found, errors
        assert "Traceback" not in broker.log


def goes_on(broker: BrokerProcess, number: int) -> None:
    """A record is accepted again, sooner or later."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        sent = Sent(broker.bootstrap, message_timeout_ms=2_000)
        sent.send(TOPIC, value(number))
        sent.flush_quietly(3)
        if sent.delivered:
            return
        assert time.monotonic() < deadline, (
            f"nothing is accepted though there is room: {sent.failed}"
        )


def disk_full_of_others(folder: Path) -> None:
    """Leave not a byte of the disk.

    The node says so and keeps its records, and works again once there is room.
    """
    with (
        small_disk(folder / "disk") as disk,
        BrokerProcess(folder, properties={**PROPERTIES, "log.dirs": str(disk / "data")}) as broker,
    ):
        create_topic(broker.bootstrap, TOPIC)
        fill(broker.bootstrap, 20)
        take_all_room(disk / "ballast")
        sent = Sent(broker.bootstrap, message_timeout_ms=3_000)
        sent.send(TOPIC, value(20))
        sent.flush_quietly(10)
        assert not sent.delivered, "a record was acknowledged that there was no room for"
        if is_alive(broker):
            found, errors = read_until_told(broker.bootstrap, 20)
            assert [number for _, number in found] == list(range(20)), errors
        broker.kill()
        refusal = refused_start(broker)
        assert not refusal or "no space" in refusal.lower() or "full" in refusal.lower(), (
            f"it does not say why it does not start: {refusal}"
        )
        broker.kill()
        (disk / "ballast").unlink()
        broker.start()
        found, errors = read_until_told(broker.bootstrap, 20)
        assert [number for _, number in found][:20] == list(range(20)), errors
        goes_on(broker, 21)
        assert "Traceback" not in broker.log


def take_all_room(path: Path) -> None:
    """Write until there is no room."""
    ballast = os.open(path, os.O_WRONLY | os.O_CREAT)
    for size in (1 << 20, 1 << 12, 1 << 8):
        with suppress(OSError):
            while os.write(ballast, bytes(size)):
                pass
    os.close(ballast)


def is_alive(broker: BrokerProcess) -> bool:
    """Whether the process answers; one that ends by itself for its disk's sake is fine where it
    says so.
    """
    try:
        consumer(broker.bootstrap, "judge").list_topics(timeout=2)
    except confluent_kafka.KafkaException:
        return False
    return True


def read_only_disk(folder: Path) -> None:
    """Turn the disk read-only under a running node.

    Writes are refused or the node ends with a sentence; all is there after.
    """
    with (
        small_disk(folder / "disk") as disk,
        BrokerProcess(folder, properties={**PROPERTIES, "log.dirs": str(disk / "data")}) as broker,
    ):
        create_topic(broker.bootstrap, TOPIC)
        fill(broker.bootstrap, 20)
        broker.kill()
        remount(disk, "ro")
        code, text = run_to_its_end(
            folder, properties={**PROPERTIES, "log.dirs": str(disk / "data")}
        )
        assert code != 0
        assert str(disk / "data") in text, text
        assert "Traceback" not in text, text
        remount(disk, "rw")
        broker.start()
        assert assert_no_silent_gap(broker, 20)


def remount(disk: Path, how: str) -> None:
    """Remount a small disk."""
    done = subprocess.run(
        ["mount", "-o", f"remount,{how}", str(disk)], capture_output=True, check=False
    )
    if done.returncode:
        raise UnfitError(f"the disk cannot be remounted: {done.stderr.decode().strip()}")


def refused_start(broker: BrokerProcess) -> str:
    """Start a node, or return what it says of why it cannot."""
    try:
        broker.start()
    except NotStartedError as error:
        text = str(error)
    else:
        return ""
    assert "Traceback" not in text, text
    return text


def end(broker: BrokerProcess, *, is_clean: bool) -> None:
    """Stop in order, or kill."""
    if is_clean:
        broker.stop()
    else:
        broker.kill()


def loaded(folder: Path) -> BrokerProcess:
    """A node with some segments of records, running."""
    broker = BrokerProcess(folder, properties=PROPERTIES).start()
    create_topic(broker.bootstrap, TOPIC)
    fill(broker.bootstrap, FIRST_RECORDS)
    assert len(partition_files(folder / "data", ".log")) > 2
    return broker


def vanished(
    suffix: str, which: int, *, is_running: bool, is_clean: bool = True, must_serve: bool
) -> Callable[[Path], None]:
    """Return a case in which one of the partition's files vanishes.

    The node starts again, and all is served (or, if it need not be, that is told).
    """

    def case(folder: Path) -> None:
        broker = loaded(folder)
        try:
            if is_running:
                partition_files(folder / "data", suffix)[which].unlink()
                assert_no_silent_gap(broker, FIRST_RECORDS)
            end(broker, is_clean=is_clean)
            log_before = len(broker.log)
            if not is_running:
                partition_files(folder / "data", suffix)[which].unlink()
            broker.start()
            is_whole = assert_no_silent_gap(broker, FIRST_RECORDS, log_before=log_before)
            assert is_whole or not must_serve, (
                "a file that can be written anew is missing, and records with it"
            )
            if is_whole:
                fill(broker.bootstrap, 5, first=FIRST_RECORDS)
                assert assert_no_silent_gap(broker, FIRST_RECORDS + 5)
        finally:
            broker.kill()

    return case


def written_once_more(*, is_clean: bool) -> Callable[[Path], None]:
    """Return a case in which the active segment vanishes, and records follow it.

    Nothing is lost, and the node tells of it.
    """

    def case(folder: Path) -> None:
        broker = loaded(folder)
        try:
            removed = partition_files(folder / "data", ".log")[-1]
            removed.unlink()
            fill(broker.bootstrap, 5, first=FIRST_RECORDS)
            deadline = time.monotonic() + WAIT_SECONDS
            while not is_clean and not removed.exists():
                assert time.monotonic() < deadline, "the node does not notice that a file is gone"
                time.sleep(0.1)
            end(broker, is_clean=is_clean)
            assert f"{removed} vanished" in broker.log
            assert told(broker.log)
            broker.start()
            assert assert_no_silent_gap(broker, FIRST_RECORDS + 5), (
                "records are missing that were acknowledged"
            )
            fill(broker.bootstrap, 5, first=FIRST_RECORDS + 5)
            assert assert_no_silent_gap(broker, FIRST_RECORDS + 10)
        finally:
            broker.kill()

    return case


def vanished_beside(name: str, *, is_clean: bool) -> Callable[[Path], None]:
    """Return a case in which a file of the log directory vanishes while the node is stopped.

    All is served, or the start is refused with its name.
    """

    def case(folder: Path) -> None:
        broker = loaded(folder)
        try:
            end(broker, is_clean=is_clean)
            (folder / "data" / name).unlink(missing_ok=True)
            refusal = refused_start(broker)
            if refusal:
                assert name.rpartition("/")[2] in refusal or name.partition("/")[0] in refusal, (
                    f"it does not name the file: {refusal}"
                )
                return
            assert assert_no_silent_gap(broker, FIRST_RECORDS), (
                "a file that can be written anew is missing, and records with it"
            )
            fill(broker.bootstrap, 5, first=FIRST_RECORDS)
            assert assert_no_silent_gap(broker, FIRST_RECORDS + 5)
        finally:
            broker.kill()

    return case


CASES: dict[str, Callable[[Path], None]] = {
    "a full disk": full_disk,
    "a disk full of somebody else's": disk_full_of_others,
    "a disk that turned read-only": read_only_disk,
    "an index vanishes": vanished(".index", 1, is_running=False, must_serve=True),
    "an index vanishes before a kill": vanished(
        ".index", 1, is_running=True, is_clean=False, must_serve=True
    ),
    "a time index vanishes": vanished(".timeindex", 1, is_running=False, must_serve=True),
    "the active index vanishes while running": vanished(
        ".index", -1, is_running=True, must_serve=True
    ),
    "a producer snapshot vanishes": vanished(".snapshot", -1, is_running=False, must_serve=True),
    "the leader epochs vanish": vanished(
        "leader-epoch-checkpoint", 0, is_running=False, must_serve=True
    ),
    "the topic's id vanishes": vanished("partition.metadata", 0, is_running=False, must_serve=True),
    "the first segment vanishes": vanished(".log", 0, is_running=False, must_serve=False),
    "a middle segment vanishes": vanished(".log", 1, is_running=False, must_serve=False),
    "a middle segment vanishes before a kill": vanished(
        ".log", 1, is_running=False, is_clean=False, must_serve=False
    ),
    "the active segment vanishes": vanished(".log", -1, is_running=False, must_serve=False),
    "the active segment vanishes before a kill": vanished(
        ".log", -1, is_running=False, is_clean=False, must_serve=False
    ),
    "a middle segment vanishes while running": vanished(
        ".log", 1, is_running=True, must_serve=False
    ),
    "the active segment vanishes while running": written_once_more(is_clean=False),
    "the active segment vanishes before a stop": written_once_more(is_clean=True),
    "the recovery points vanish": vanished_beside(
        "recovery-point-offset-checkpoint", is_clean=True
    ),
    "the recovery points vanish before a kill": vanished_beside(
        "recovery-point-offset-checkpoint", is_clean=False
    ),
    "the log starts vanish": vanished_beside("log-start-offset-checkpoint", is_clean=True),
    "the high watermarks vanish": vanished_beside("replication-offset-checkpoint", is_clean=False),
    "the mark of a clean stop vanishes": vanished_beside(".kafka_cleanshutdown", is_clean=True),
    "the owner's name vanishes": vanished_beside("meta.properties", is_clean=True),
    "the quorum's state vanishes": vanished_beside(
        "__cluster_metadata-0/quorum-state", is_clean=True
    ),
    "the metadata log vanishes": vanished_beside(
        "__cluster_metadata-0/00000000000000000000.log", is_clean=True
    ),
}
