"""A broker claims its last run only where all its logs are there.

A missing or exchanged log is told by name (KIP-966).
"""

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from log_service.storage.log_directory import LogDirectory
from log_service.storage.running_files import RUNNING_FILE, VOTES
from log_service.storage.running_logs import (
    RUNNING_LOGS_FILE,
    Extent,
    RunningLogs,
    read_running_logs,
)
from tests.sim.files import MemoryFiles
from tests.unit.storage.managed_logs import FIRST, ID_A, ID_B, SECOND, A, B, Node, run

EPOCH = 41
BOTH = (FIRST, SECOND)
MARKER = ".kafka_cleanshutdown"
LOG_OF_A = FIRST / "a-0"


def running(*, dirs: tuple[Path, ...] = (FIRST,), files: MemoryFiles | None = None) -> Node:
    """Return a node of a registered broker.

    It has seven records in segments 0, 2, 4 and 6 of ``a-0``, three in ``b-1``.
    """
    node = Node(files, dirs=dirs)
    run(node.manager.load)
    node.manager.note_registered(EPOCH)
    for topic_partition, topic_id, count in ((A, ID_A, 7), (B, ID_B, 3)):
        node.manager.create_log(topic_partition, topic_id, node.config)
        node.append(topic_partition, count)
    return node


def killed(node: Node) -> MemoryFiles:
    files = node.files
    files.disk.kill()
    return MemoryFiles(files.disk, rng=Random(7), clock=node.clock)


def stopped(node: Node) -> MemoryFiles:
    run(lambda: node.manager.close(broker_epoch=EPOCH))
    return node.files


def checkpointed(node: Node) -> Node:
    """Write what upkeep writes now and then."""

    async def write() -> None:
        for log in node.manager.logs.values():
            await log.sync_rolled()
        await node.manager.save_high_watermarks({A: 7, B: 3})

    run(write)
    for directory in node.manager.directories:
        node.manager.checkpoint_writer.write_recovery_points(directory)
    return node


def started(files: MemoryFiles, *, dirs: tuple[Path, ...] = (FIRST,)) -> Node:
    node = Node(files, dirs=dirs)
    run(node.manager.load)
    return node


def previous_epoch(files: MemoryFiles, *, dirs: tuple[Path, ...] = (FIRST,)) -> int:
    return started(files, dirs=dirs).manager.previous_broker_epoch


def remove(*names: str) -> Callable[[MemoryFiles], None]:
    def act(files: MemoryFiles) -> None:
        for name in names:
            files.remove(FIRST / name)

    return act


def remove_segment(base_offset: int) -> Callable[[MemoryFiles], None]:
    def act(files: MemoryFiles) -> None:
        for name in files.list_directory(LOG_OF_A):
            if name.startswith(f"{base_offset:020d}"):
                files.remove(LOG_OF_A / name)

    return act


def remove_directory(files: MemoryFiles) -> None:
    files.remove_tree(LOG_OF_A)


def empty_directory(files: MemoryFiles) -> None:
    for name in files.list_directory(LOG_OF_A):
        files.remove(LOG_OF_A / name)


def exchange_topic(files: MemoryFiles) -> None:
    other = files.read_bytes(FIRST / "b-1" / "partition.metadata")
    files.write_atomically(LOG_OF_A / "partition.metadata", other)


def exchange_directories(files: MemoryFiles) -> None:
    for source, target in (("a-0", "c-0"), ("b-1", "a-0"), ("c-0", "b-1")):
        files.rename(FIRST / source, FIRST / target)


def cut_last_segment(files: MemoryFiles) -> None:
    file = files.open(LOG_OF_A / f"{6:020d}.log")
    file.truncate(0)
    file.close()


KINDS: list[tuple[str, Callable[[MemoryFiles], None], str]] = [
    ("directory", remove_directory, "a-0 is missing, it ended at offset 7"),
    ("content of a directory", empty_directory, "a-0 holds no segment, but offsets up to 6"),
    ("first segment", remove_segment(0), "a-0 begins at offset 2 instead of 0"),
    ("middle segment", remove_segment(2), "a-0 has no segment 00000000000000000002.log"),
    ("last segment", remove_segment(6), "a-0 ends at offset 6 instead of 7"),
    ("bytes of the last segment", cut_last_segment, "a-0 ends at offset 6 instead of 7"),
    ("topic id", exchange_topic, "a-0 is of topic id"),
    ("file of the topic id", remove("a-0/partition.metadata"), "a-0 is of topic id none"),
    (
        "places of two directories",
        exchange_directories,
        "b-1 is of topic id AAAAAAAAAAAAAAAAAAAAAQ instead of AAAAAAAAAAAAAAAAAAAAAg",
    ),
    ("list", remove(RUNNING_LOGS_FILE), f"/first has no {RUNNING_LOGS_FILE}"),
    (
        "recovery points",
        remove("recovery-point-offset-checkpoint"),
        "/first/recovery-point-offset-checkpoint is missing",
    ),
    (
        "high watermarks",
        remove("replication-offset-checkpoint"),
        "/first/replication-offset-checkpoint is missing",
    ),
    ("leader epochs", remove("a-0/leader-epoch-checkpoint"), "a-0 has no leader-epoch-checkpoint"),
]


@pytest.mark.parametrize(
    ("act", "text"), [kind[1:] for kind in KINDS], ids=[kind[0] for kind in KINDS]
)
def test_what_is_missing_after_a_kill_is_named_and_not_claimed(
    act: Callable[[MemoryFiles], None], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = killed(checkpointed(running()))
    act(files)
    node = started(files)
    assert node.manager.previous_broker_epoch == -1
    assert text in caplog.text
    assert previous_epoch(killed(node)) == -1, "not at a later start either"


@pytest.mark.parametrize(
    "act",
    [
        remove_directory,
        empty_directory,
        remove_segment(0),
        remove_segment(2),
        remove_segment(6),
        exchange_topic,
        cut_last_segment,
    ],
)
def test_what_is_missing_after_a_clean_stop_is_not_claimed(
    act: Callable[[MemoryFiles], None],
) -> None:
    files = stopped(running())
    assert files.exists(FIRST / MARKER)
    act(files)
    assert previous_epoch(files) == -1


def test_a_clean_stop_of_apache_kafka_is_measured_by_the_recovery_points(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = stopped(running())
    files.remove(FIRST / RUNNING_LOGS_FILE)
    files.remove_tree(LOG_OF_A)
    assert previous_epoch(files) == -1
    assert "a-0 is missing, it ended at offset 7" in caplog.text


def test_a_clean_stop_without_recovery_points_is_not_claimed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = stopped(running())
    files.remove(FIRST / RUNNING_LOGS_FILE)
    files.remove(FIRST / "recovery-point-offset-checkpoint")
    assert previous_epoch(files) == -1
    assert "has no recovery point" in caplog.text


def test_an_older_copy_of_a_directory_is_not_claimed(caplog: pytest.LogCaptureFixture) -> None:
    node = running()
    older = {
        name: node.files.read_bytes(LOG_OF_A / name) for name in node.files.list_directory(LOG_OF_A)
    }
    node.append(A, 3)
    run(lambda: node.manager.save_high_watermarks({A: 10}))
    files = killed(node)
    files.remove_tree(LOG_OF_A)
    files.make_directory(LOG_OF_A)
    for name, content in older.items():
        files.write_atomically(LOG_OF_A / name, content)
    assert previous_epoch(files) == -1
    assert "a-0 ends at offset 7 instead of 10" in caplog.text


def test_many_missing_logs_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    node = running()
    for index in range(10, 30):
        topic_partition = TopicPartition("many", index)
        node.manager.create_log(topic_partition, ID_A, node.config)
        node.append(topic_partition)
    files = killed(node)
    for index in range(10, 30):
        files.remove_tree(FIRST / f"many-{index}")
    started(files)
    lines = [record.getMessage() for record in caplog.records if "missing" in record.getMessage()]
    assert len(lines) == 1
    assert (
        "in 20 places: many-10 is missing, it ended at offset 1 in /first; many-11 is missing"
        in lines[0]
    )
    assert "; and 15 more. This broker counts as one that lost records" in lines[0]


# What a run does by itself is no loss


def delete(node: Node) -> None:
    node.manager.delete_log(A)


def delete_and_create(node: Node) -> None:
    node.manager.delete_log(A)
    node.manager.create_log(A, ID_B, node.config)


def cut(node: Node) -> None:
    node.manager.logs[A].truncate_to(3)
    node.append(A)


def begin_elsewhere(node: Node) -> None:
    node.manager.logs[A].restart_at(90)
    node.append(A)


def retain(node: Node) -> None:
    log = node.manager.logs[A]
    log.reconfigure(replace(node.config, retention_bytes=0))
    log.apply_retention(node.clock.wall_ms(), 7)


def delete_records(node: Node) -> None:
    node.manager.logs[A].advance_log_start_offset(5)


def create(node: Node) -> None:
    node.manager.create_log(TopicPartition("c", 0), ID_B, node.config)
    node.append(TopicPartition("c", 0))


def move(node: Node) -> None:
    log = node.manager.logs[A]
    target = next(directory for directory in node.manager.directories if directory is not log.home)
    run(lambda: node.manager.futures.move(log, target, lambda _log: None))


STORY = [create, retain, cut, delete_records, begin_elsewhere, delete_and_create, delete]


@pytest.mark.parametrize("act", [*STORY, move], ids=lambda act: act.__name__)
def test_a_kill_after_what_a_run_does_by_itself_loses_nothing(act: Callable[[Node], None]) -> None:
    node = checkpointed(running(dirs=BOTH))
    act(node)
    assert previous_epoch(killed(node), dirs=BOTH) == EPOCH


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("act", [*STORY, move], ids=lambda act: act.__name__)
def test_a_kill_at_each_operation_loses_nothing(act: Callable[[Node], None]) -> None:
    """The list is right between any two operations of the disk."""
    count = 0
    while True:
        node = checkpointed(running(dirs=BOTH))
        left = count = count + 1

        def on_operation(_operation: str, _path: Path) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed

        node.files.on_operation = on_operation
        is_killed = False
        try:
            act(node)
        except (Killed, BaseExceptionGroup):
            is_killed = True
        if not is_killed:
            break
        assert left <= 0
        assert previous_epoch(killed(node), dirs=BOTH) == EPOCH, f"operation {count}"
    assert count > 1


def test_a_log_that_was_carried_to_another_directory_is_there() -> None:
    files = killed(running(dirs=BOTH))
    source = next(path for path in BOTH if files.exists(path / "a-0"))
    files.rename(source / "a-0", next(path for path in BOTH if path != source) / "a-0")
    assert previous_epoch(files, dirs=BOTH) == EPOCH


# What becomes of a log that is lost


def without_a() -> Node:
    files = killed(checkpointed(running()))
    remove_directory(files)
    return started(files)


def test_an_only_replica_begins_behind_its_last_known_offset() -> None:
    """No offset is given to two records."""
    node = without_a()
    log = node.manager.create_log(A, ID_A, node.config, is_new=False, is_alone=True)
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)
    node.append(A)
    node.manager.note_registered(EPOCH + 1)
    again = started(killed(node))
    assert again.manager.previous_broker_epoch == EPOCH + 1
    found = again.manager.logs[A]
    assert (found.log_start_offset, found.log_end_offset) == (7, 8)


def test_a_replica_that_lost_its_log_does_not_lead_others_with_an_empty_one() -> None:
    node = without_a()
    with pytest.raises(
        KafkaError,
        match=r"a-0 is missing, it ended at offset 7 in /first\. Another replica has to lead",
    ):
        node.manager.create_log(A, ID_A, node.config, is_new=False)
    node.manager.unserved.begin_anew(A)
    log = node.manager.create_log(A, ID_A, node.config, is_new=False)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)


@pytest.mark.parametrize("base_offset", [0, 2])
def test_a_follower_fetches_a_log_anew_of_which_the_head_or_the_middle_is_missing(
    base_offset: int,
) -> None:
    """The follower would else fetch on from its end, come in sync, and lead without the missing
    records.
    """
    files = killed(checkpointed(running()))
    remove_segment(base_offset)(files)
    node = started(files)
    node.manager.unserved.begin_anew(A)
    log = node.manager.create_log(A, ID_A, node.config, is_new=False)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert any(name.endswith("-stray") for name in files.list_directory(FIRST)), (
        "what was left is kept"
    )


def test_a_follower_goes_on_from_the_end_of_a_log_that_ends_too_early() -> None:
    files = killed(checkpointed(running()))
    remove_segment(6)(files)
    node = started(files)
    node.manager.unserved.begin_anew(A)
    assert node.manager.create_log(A, ID_A, node.config, is_new=False).log_end_offset == 6


def test_a_node_whose_metadata_log_is_gone_says_so_and_does_not_claim_its_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It forgot its votes, and what it told the quorum to be safe."""
    node = Node()
    run(node.manager.load)
    node.files.make_directory(FIRST / "__cluster_metadata-0")
    node.files.write_atomically(FIRST / VOTES, b"{}")
    node.manager.note_registered(EPOCH)
    files = killed(node)
    files.remove_tree(FIRST / "__cluster_metadata-0")
    assert previous_epoch(files) == -1
    assert "/first/__cluster_metadata-0/quorum-state is missing" in caplog.text


def test_a_lost_log_stays_lost_through_later_runs_until_it_is_brought_back() -> None:
    files = killed(checkpointed(running()))
    files.rename(LOG_OF_A, Path("/away"))
    for epoch in (EPOCH + 1, EPOCH + 2):
        node = started(files)
        node.manager.note_registered(epoch)
        assert list(node.manager.lost) == [A]
        files = killed(node)
    files.rename(Path("/away"), LOG_OF_A)
    assert previous_epoch(files) == EPOCH + 2


@pytest.mark.parametrize("end", ["deleted", "unknown", "another topic"])
def test_a_lost_log_of_no_topic_is_missed_no_longer(end: str) -> None:
    node = without_a()
    node.manager.note_registered(EPOCH + 1)
    if end == "deleted":
        node.manager.delete_log(A)
    elif end == "unknown":
        node.manager.unserved.set_aside_strays(lambda log: log.topic_partition != A)
    else:
        assert node.manager.create_log(A, ID_B, node.config, is_alone=True).log_end_offset == 0
    assert not node.manager.lost
    assert previous_epoch(killed(node)) == EPOCH + 1


def test_a_damaged_log_that_is_moved_away_as_advised_is_missed() -> None:
    files = killed(checkpointed(running()))
    files.open(LOG_OF_A / f"{2:020d}.log").truncate(0)
    files.remove(LOG_OF_A / f"{4:020d}.log")
    node = started(files)
    assert A in node.manager.damaged
    node.manager.note_registered(EPOCH + 1)
    files = stopped(node)
    files.rename(LOG_OF_A, Path("/away"))
    again = started(files)
    assert again.manager.previous_broker_epoch == -1
    log = again.manager.create_log(A, ID_A, again.config, is_new=False, is_alone=True)
    assert log.log_start_offset == 7


# The list


def test_a_full_disk_ends_the_list_and_the_claim() -> None:
    node = running()
    node.files.fail_next("append", error=errno.ENOSPC, containing=RUNNING_LOGS_FILE)
    node.manager.delete_log(A)
    assert not node.files.exists(FIRST / RUNNING_FILE)
    assert not node.manager.directories[0].is_offline
    assert previous_epoch(killed(node)) == -1


def test_a_disk_that_does_not_take_the_list_takes_the_directory_offline() -> None:
    node = running(dirs=BOTH)
    home = node.manager.logs[A].home
    node.files.fail_next("append", containing=f"{home.path}/{RUNNING_LOGS_FILE}")
    with pytest.raises(KafkaError):
        node.append(A, 3)
    assert home.is_offline
    assert previous_epoch(killed(node), dirs=BOTH) == -1


def test_the_list_is_written_anew_before_it_grows_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("log_service.storage.running_logs.NEEDLESS_LINES", 5)
    files = MemoryFiles()
    files.make_directory(FIRST)
    listed = RunningLogs(files, FIRST, lambda _error: None)
    listed.begin(EPOCH, {}, [])
    for offset in range(50):
        listed.note(A, Extent(topic_id=ID_A, start_offset=0, end_offset=offset, base_offsets=(0,)))
    listed.end()
    assert files.read_bytes(FIRST / RUNNING_LOGS_FILE).count(b"\n") < 10
    found = read_running_logs(files, FIRST)
    assert found is not None
    assert found.extents == {
        A: Extent(topic_id=ID_A, start_offset=0, end_offset=49, base_offsets=(0,))
    }


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"{}\n",
        b"[]\n",
        b"\xff\n",
        b'{"brokerEpoch":41,"pageCacheId":"boot 1"}\n[1,2,3]\n',
    ],
)
def test_a_list_that_says_nothing_is_not_believed(content: bytes) -> None:
    files = killed(running())
    files.write_atomically(FIRST / RUNNING_LOGS_FILE, content)
    assert previous_epoch(files) == -1


def test_a_torn_last_line_is_what_a_kill_leaves() -> None:
    files = killed(running())
    files.open(FIRST / RUNNING_LOGS_FILE).append_gathered([b'["c",0,'])
    assert previous_epoch(files) == EPOCH


def test_a_directory_by_itself_keeps_no_list() -> None:
    home = LogDirectory(FIRST)
    home.on_extent(A, Extent(topic_id=None, start_offset=0, end_offset=0))
    home.on_going(A)
