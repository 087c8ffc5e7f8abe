"""A start finds logs that it does not serve.

They are several of one partition in different directories, and damaged ones.
"""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from log_service.common.errors import KafkaError
from log_service.storage.last_run import LostLog
from log_service.storage.rivals import FoundLog
from tests.sim.files import MemoryFiles
from tests.unit.storage.managed_logs import FIRST, ID_A, ID_B, SECOND, A, B, Node, run
from tests.unit.storage.moving_logs import BOTH

THIRD = Path("/third")
EPOCH = 7


def written(files: MemoryFiles, path: Path, count: int, *, start: int = 0) -> None:
    """Leave a log of the partition in a directory, closed in order."""
    node = Node(files, dirs=(path,))
    run(node.manager.load)
    node.manager.create_log(A, ID_A, node.config)
    node.append(A, count)
    node.manager.logs[A].advance_log_start_offset(start)
    run(lambda: node.manager.close(broker_epoch=EPOCH))


def cut(files: MemoryFiles, path: Path) -> None:
    """Take the end of a log away, which was durable."""
    last = max(name for name in files.list_directory(path / "a-0") if name.endswith(".log"))
    file = files.open(path / "a-0" / last)
    file.truncate(3)
    file.close()


def loaded(files: MemoryFiles, dirs: tuple[Path, ...]) -> Node:
    node = Node(files, dirs=dirs)
    run(node.manager.load)
    return node


def settle(
    node: Node, named: Path, *, is_known: Callable[[FoundLog | LostLog], bool] = lambda _log: True
) -> None:
    node.manager.unserved.settle_rivals(is_known, lambda _log: node.manager.directory_ids[named])
    node.manager.unserved.set_aside_strays(is_known)


def names_in(files: MemoryFiles, path: Path) -> list[str]:
    """Return what becomes of the partition's directories there: the end of each name."""
    return [
        name.rpartition("-")[2] for name in files.list_directory(path) if name.startswith("a-0")
    ]


@pytest.mark.parametrize("named", BOTH)
def test_a_damaged_log_that_the_metadata_names_is_not_replaced_by_a_stale_one(named: Path) -> None:
    """The stale one was served without a word, as if it held what had been acknowledged."""
    other = FIRST if named == SECOND else SECOND
    files = MemoryFiles()
    written(files, named, 5)
    written(files, other, 2)
    cut(files, named)
    node = loaded(files, BOTH)
    settle(node, named)
    with pytest.raises(KafkaError, match="is damaged below"):
        node.manager.create_log(A, ID_A, node.config)
    assert (names_in(files, named), names_in(files, other)) == (["0"], ["stray"])
    run(node.manager.close)
    assert files.open_count == 0


@pytest.mark.parametrize("named", BOTH)
def test_a_damaged_log_beside_the_one_that_counts_is_set_aside_and_the_next_start_is_clean(
    named: Path,
) -> None:
    """It stayed, and each start counted as one that had lost records."""
    other = FIRST if named == SECOND else SECOND
    files = MemoryFiles()
    written(files, named, 5)
    written(files, other, 7)
    cut(files, other)
    node = loaded(files, BOTH)
    assert node.manager.previous_broker_epoch == -1
    settle(node, named)
    assert node.manager.create_log(A, ID_A, node.config).log_end_offset == 5
    assert (names_in(files, named), names_in(files, other)) == (["0"], ["stray"])
    run(lambda: node.manager.close(broker_epoch=EPOCH))
    assert loaded(files, BOTH).manager.previous_broker_epoch == EPOCH


@pytest.mark.parametrize("named", BOTH)
def test_of_two_damaged_logs_the_one_that_the_metadata_names_stays(named: Path) -> None:
    """The other one was forgotten, or the named one was."""
    files = MemoryFiles()
    for path in BOTH:
        written(files, path, 5)
        cut(files, path)
    node = loaded(files, BOTH)
    settle(node, named)
    assert node.manager.damaged[A].directory == named / "a-0"
    assert sorted(names_in(files, FIRST) + names_in(files, SECOND)) == ["0", "stray"]
    run(node.manager.close)


@pytest.mark.parametrize("named", [FIRST, SECOND, THIRD])
@pytest.mark.parametrize("damaged", [None, FIRST, SECOND, THIRD])
def test_of_three_logs_that_counts_which_the_metadata_names(
    named: Path, damaged: Path | None
) -> None:
    """A start was refused where the named one was not the last that was found."""
    files = MemoryFiles()
    dirs = (FIRST, SECOND, THIRD)
    for count, path in enumerate(dirs, 3):
        written(files, path, count)
    if damaged is not None:
        cut(files, damaged)
    node = loaded(files, dirs)
    settle(node, named)
    assert [path for path in dirs if names_in(files, path) == ["0"]] == [named]
    assert list(node.manager.logs) == ([] if damaged == named else [A])
    assert list(node.manager.damaged) == ([A] if damaged == named else [])
    run(node.manager.close)
    assert files.open_count == 0


def test_logs_of_a_topic_that_is_gone_are_strays_for_that_and_no_other_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = MemoryFiles()
    for count, path in enumerate((*BOTH, THIRD), 2):
        written(files, path, count)
    node = loaded(files, (*BOTH, THIRD))
    settle(node, THIRD, is_known=lambda _log: False)
    assert [names_in(files, path) for path in (*BOTH, THIRD)] == [["stray"]] * 3
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [
        "it is of no topic of this cluster"
    ] * 3
    run(node.manager.close)
    assert files.open_count == 0


def test_a_damaged_log_of_another_topic_is_a_stray() -> None:
    files = MemoryFiles()
    written(files, FIRST, 5)
    cut(files, FIRST)
    node = loaded(files, (FIRST,))
    settle(node, FIRST, is_known=lambda log: log.topic_id == ID_B)
    assert node.manager.create_log(A, ID_B, node.config).log_end_offset == 0
    assert sorted(names_in(files, FIRST)) == ["0", "stray"]
    run(node.manager.close)


# A directory that turns read-only after it was loaded


@pytest.mark.parametrize("damaged", [None, *BOTH])
@pytest.mark.parametrize("failed", BOTH)
@pytest.mark.parametrize("named", BOTH)
def test_a_directory_that_turns_read_only_before_its_logs_are_settled_goes_offline_alone(
    named: Path, failed: Path, damaged: Path | None
) -> None:
    """The start failed, and so did each one after it."""
    files = MemoryFiles()
    for path, count in ((named, 5), (FIRST if named == SECOND else SECOND, 7)):
        written(files, path, count)
    if damaged is not None:
        cut(files, damaged)
    node = loaded(files, BOTH)
    files.fail_next("rename", error=errno.EROFS, containing=str(failed), count=100)
    settle(node, named)
    assert [home.path for home in node.manager.directories if home.is_offline] == (
        [] if failed == named else [failed]
    )
    if damaged == named:
        with pytest.raises(KafkaError, match="is damaged below"):
            node.manager.create_log(A, ID_A, node.config)
    else:
        log = node.manager.create_log(A, ID_A, node.config)
        assert (log.home.path, log.log_end_offset) == (named, 5)
    assert [path for path in BOTH if "a-0" in files.list_directory(path)] == [
        path for path in BOTH if path in {named, failed}
    ]
    run(node.manager.close)
    assert files.open_count == 0


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_stray_in_a_directory_that_turns_read_only_is_served_no_more(*, is_damaged: bool) -> None:
    files = MemoryFiles()
    written(files, SECOND, 5)
    if is_damaged:
        cut(files, SECOND)
    node = loaded(files, BOTH)
    files.fail_next("rename", error=errno.EROFS, containing=str(SECOND), count=100)
    settle(node, FIRST, is_known=lambda _log: False)
    assert [home.path for home in node.manager.directories if home.is_offline] == [SECOND]
    log = node.manager.create_log(A, ID_B, node.config)
    assert (log.home.path, log.log_end_offset) == (FIRST, 0)
    run(node.manager.close)
    assert files.open_count == 0


# What the checkpoints say of a log that is not served


@pytest.mark.parametrize("named", BOTH)
def test_a_start_that_is_given_up_while_two_logs_wait_takes_neither_start_back(named: Path) -> None:
    """The log that waited was left out of the checkpoints, and its deleted records came back."""
    files = MemoryFiles()
    written(files, FIRST, 5, start=3)
    written(files, SECOND, 6, start=3)
    run(loaded(files, BOTH).manager.close)
    node = loaded(files, BOTH)
    settle(node, named)
    assert node.manager.logs[A].log_start_offset == 3
    run(node.manager.close)


def test_a_log_that_waited_while_a_start_was_given_up_was_closed_in_order() -> None:
    """Recovery had cut it and synced nothing, and the marker said that nothing was left to do."""
    files = MemoryFiles()
    written(files, FIRST, 6)
    written(files, SECOND, 6)
    for path in BOTH:
        files.remove(path / ".kafka_cleanshutdown")
        files.remove(path / "a-0" / "00000000000000000006.snapshot")
    node = loaded(files, BOTH)
    (waiting,) = (path for path in BOTH if path != node.manager.logs[A].home.path)
    run(node.manager.close)
    assert files.exists(waiting / "a-0" / "00000000000000000006.snapshot")
    assert files.open_count == 0


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_damaged_log_is_not_taken_for_a_whole_one_at_a_later_start(*, is_stopped: bool) -> None:
    """The checkpoint lost its recovery point: the next start cut the damage off, and served what
    was left.
    """
    files = MemoryFiles()
    written(files, FIRST, 5)
    cut(files, FIRST)
    node = loaded(files, (FIRST,))
    node.manager.create_log(B, ID_B, node.config)
    node.append(B, 3)
    if is_stopped:
        run(node.manager.close)
    else:
        node.manager.checkpoint_writer.write_recovery_points(node.manager.directories[0])
        node.manager.release()
    again = loaded(files, (FIRST,))
    assert list(again.manager.damaged) == [A]
    assert again.manager.logs[B].log_end_offset == 3
    again.manager.release()


def test_what_a_start_after_a_crash_found_damaged_is_not_believed_after_a_clean_stop() -> None:
    """A clean stop let the next start look at the end of the log alone, where nothing was wrong."""
    files = MemoryFiles()
    written(files, FIRST, 6)
    segments = sorted(name for name in files.list_directory(FIRST / "a-0") if name.endswith(".log"))
    file = files.open(FIRST / "a-0" / segments[-1])
    file.write_at(70, b"\xff\xff")
    file.close()
    files.remove(FIRST / ".kafka_cleanshutdown")
    node = loaded(files, (FIRST,))
    assert list(node.manager.damaged) == [A]
    run(node.manager.close)
    again = loaded(files, (FIRST,))
    assert list(again.manager.damaged) == [A]
    again.manager.release()


@pytest.mark.parametrize("is_clean", [False, True])
def test_damage_that_only_the_producers_are_read_from_does_not_stop_a_start(
    *, is_clean: bool
) -> None:
    """It was no damage of a log to the start, which ended with all other logs of the node."""
    files = MemoryFiles()
    written(files, FIRST, 6)
    for name in files.list_directory(FIRST / "a-0"):
        if name.endswith(".snapshot"):
            files.remove(FIRST / "a-0" / name)
    file = files.open(FIRST / "a-0" / "00000000000000000002.log")
    file.truncate(40)
    file.close()
    if not is_clean:
        files.remove(FIRST / ".kafka_cleanshutdown")
    node = loaded(files, (FIRST,))
    assert "00000000000000000002.log" in files.list_directory(FIRST / "a-0")
    assert list(node.manager.damaged) == [A]
    node.manager.release()
    assert files.open_count == 0


def test_a_damaged_segment_without_an_index_is_not_kept_open() -> None:
    files = MemoryFiles()
    written(files, FIRST, 6)
    file = files.open(FIRST / "a-0" / "00000000000000000002.log")
    file.truncate(40)
    file.close()
    files.remove(FIRST / "a-0" / "00000000000000000002.index")
    node = loaded(files, (FIRST,))
    assert list(node.manager.damaged) == [A]
    node.manager.release()
    assert files.open_count == 0
