"""A node reports two processes under one node id, and not too often."""

import logging

import pytest

from log_service.common.types import NodeId
from log_service.raft.rivals import LOG_INTERVAL_MS, RivalWatch
from log_service.raft.twins import MAX_DIRECTORIES, Twins, TwinWatch
from log_service.storage.partition_metadata import format_uuid
from tests.unit.raft.quorum import directory
from tests.unit.raft.script import Script

THREE = NodeId(3)
A, B = directory(3), directory(103)


def test_two_processes_of_one_voter_are_told_once_a_minute_with_both_directories(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_ms = 0
    watch = RivalWatch(NodeId(1), lambda: now_ms)
    for now_ms in range(0, LOG_INTERVAL_MS + 1, 500):  # noqa: B007 - the watch reads it
        watch.note_twins(Twins(THREE, (A, B)))
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == 2
    assert told[0].getMessage() == (
        f"Two processes follow the metadata log as node 3, from the directories {format_uuid(A)} and {format_uuid(B)}. Stop one of them, "
        "or give it a node.id of its own: where the nodes' files name the voters both count as one, and metadata may be lost; where "
        "records name them, neither takes the place of the other"
    )


def test_two_processes_of_one_voter_of_the_configuration_are_told_too() -> None:
    script = Script()
    for command in ("static 1 2 3", "start 1 2 3", "run 3000", "twin 3 103", "run 3000"):
        script.perform(command)
    assert any(
        line.endswith("1: hears two processes as node 3, from directories [3, 103]")
        for line in script.told
    )


def test_a_disk_that_was_replaced_is_no_second_process() -> None:
    script = Script()
    for command in (
        "joining 3",
        "voters 1 2 3",
        "start 1 2 3",
        "run 3000",
        "wipe 3",
        "restart 3",
        "run 9000",
        "wipe 3",
        "restart 3",
        "run 9000",
    ):
        script.perform(command)
    assert script.twin_ids == set()
    assert script.processes[3].core.role_name == "follower"


def test_turns_count_while_both_are_heard_of() -> None:
    watch = TwinWatch()
    watch.note(THREE, A, 100)
    watch.note(THREE, B, 200)
    assert watch.of(THREE, 0) is None, "B may be what A was"
    watch.note(THREE, A, 300)
    assert watch.of(THREE, 0) == Twins(THREE, (A, B))
    assert watch.of(THREE, 199) == Twins(THREE, (A, B))
    assert watch.of(THREE, 200) is None, "B is silent"
    assert watch.of(NodeId(2), 0) is None


def test_few_directories_of_an_id_are_remembered() -> None:
    watch = TwinWatch()
    for number in range(100):
        watch.note(THREE, directory(number), number)
    watch.note(THREE, directory(99 - MAX_DIRECTORIES), 100)
    assert watch.of(THREE, 0) is None, "it was forgotten"
    watch.note(THREE, directory(99), 101)
    assert watch.of(THREE, 0) == Twins(THREE, (directory(99), directory(99 - MAX_DIRECTORIES)))
