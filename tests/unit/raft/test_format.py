"""A fresh directory becomes a node's; a used one is never touched."""

from dataclasses import replace
from pathlib import Path

import pytest

from log_service.common.errors import StorageError
from log_service.metadata.features import first_feature_records
from log_service.metadata.partition import FIRST_FREE_DIRECTORY_ID
from log_service.raft.format import format_directories, random_id, read_bootstrap_records
from log_service.raft.log_view import SnapshotId
from log_service.raft.snapshots import read_snapshot
from log_service.raft.voters import VoterEndpoint
from log_service.storage.meta_properties import read_meta_properties, write_meta_properties
from log_service.storage.partition_metadata import format_uuid
from tests.unit.raft.node import DIRECTORY, METADATA, Machine

SECOND, THIRD = Path("/node/more"), Path("/node/third")


def test_a_fresh_directory_gets_the_files_of_kafka_storage_format_standalone() -> None:
    machine = Machine()
    identity = machine.format()
    assert identity.is_new
    assert machine.files.list_directory(DIRECTORY) == [
        "__cluster_metadata-0",
        "bootstrap.checkpoint",
        "meta.properties",
    ]
    assert machine.files.list_directory(METADATA) == ["00000000000000000000-0000000000.checkpoint"]
    properties = read_meta_properties(machine.files, DIRECTORY)
    assert properties is not None
    assert (properties.node_id, properties.cluster_id) == (1, identity.cluster_id)
    assert properties.directory_id == identity.directory_ids[DIRECTORY]


def test_the_first_snapshot_names_this_node_as_the_only_voter() -> None:
    machine = Machine()
    identity = machine.format()
    first = SnapshotId(0, 0)
    (voter,) = read_snapshot(machine.files, METADATA / first.file_name, first).voters
    assert (voter.node_id, voter.directory_id) == (1, identity.directory_ids[DIRECTORY])
    assert voter.endpoints == (VoterEndpoint("CONTROLLER", "127.0.0.1", 9093),)


def test_the_first_records_of_the_cluster_wait_in_the_bootstrap_file() -> None:
    machine = Machine()
    machine.format()
    assert read_bootstrap_records(machine.files, DIRECTORY) == tuple(first_feature_records())
    assert read_bootstrap_records(machine.files, SECOND) == ()


def test_a_formatted_directory_keeps_who_it_is() -> None:
    machine = Machine()
    first = machine.format()
    second = machine.format()
    assert not second.is_new
    assert (second.cluster_id, second.directory_ids) == (first.cluster_id, first.directory_ids)


def test_another_directory_joins_the_cluster_of_the_first() -> None:
    machine = Machine()
    first = machine.format()
    both = format_directories(machine.files, [DIRECTORY, SECOND], DIRECTORY, machine.plan())
    assert both.cluster_id == first.cluster_id
    assert both.directory_ids[DIRECTORY] == first.directory_ids[DIRECTORY]
    assert both.directory_ids[SECOND] != first.directory_ids[DIRECTORY]
    assert machine.files.list_directory(SECOND) == ["bootstrap.checkpoint", "meta.properties"]


def test_an_empty_directory_beside_one_that_was_used_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The directory may be the empty place of a disk that is not mounted.

    Its replicas would be gone without a word, and be copied to another disk.
    """
    machine = Machine()
    format_directories(machine.files, [DIRECTORY, SECOND], DIRECTORY, machine.plan())
    format_directories(machine.files, [DIRECTORY, SECOND], DIRECTORY, machine.plan())
    assert caplog.messages == []
    format_directories(machine.files, [DIRECTORY, SECOND, THIRD], DIRECTORY, machine.plan())
    (message,) = caplog.messages
    assert f"{THIRD} was empty" in message
    assert "mount" in message


def test_a_given_cluster_id_is_used_and_later_checked() -> None:
    machine = Machine()
    plan = machine.plan(cluster_id="capWTtRrTUChwS4VEDAgZg")
    assert (
        format_directories(machine.files, [DIRECTORY], DIRECTORY, plan).cluster_id
        == "capWTtRrTUChwS4VEDAgZg"
    )
    with pytest.raises(StorageError, match="belongs to cluster capWTtRrTUChwS4VEDAgZg"):
        format_directories(
            machine.files, [DIRECTORY], DIRECTORY, machine.plan(cluster_id="AAAAAAAAAAAAAAAAAAAAAB")
        )


def test_another_nodes_directory_is_refused() -> None:
    machine = Machine()
    machine.format()
    with pytest.raises(StorageError, match="belongs to node 1, this is node 2"):
        format_directories(machine.files, [DIRECTORY], DIRECTORY, machine.plan(node_id=2))


def test_logs_that_no_node_owns_are_not_formatted_over() -> None:
    machine = Machine()
    orphan = DIRECTORY / "orders-0"
    machine.files.make_directory(orphan)
    machine.files.open(orphan / "00000000000000000000.log").close()
    with pytest.raises(StorageError, match=r"orders-0 but no meta\.properties"):
        machine.format()


def lose_the_metadata_log(machine: Machine) -> None:
    machine.format()
    for name in machine.files.list_directory(METADATA):
        machine.files.remove(METADATA / name)


def make_log(machine: Machine) -> None:
    """Have a topic's log in the directory of the node."""
    log = DIRECTORY / "orders-0"
    machine.files.make_directory(log)
    machine.files.open(log / "00000000000000000000.log").close()


def test_logs_are_not_left_without_the_metadata_log_that_knows_their_topics() -> None:
    machine = Machine()
    lose_the_metadata_log(machine)
    make_log(machine)
    with pytest.raises(
        StorageError, match=r"__cluster_metadata-0 is not there, but .* holds logs such as orders-0"
    ):
        machine.format()


def test_a_metadata_log_of_no_topics_may_begin_anew() -> None:
    """So are directories formatted for static voters: they hold ``bootstrap.checkpoint`` alone."""
    machine = Machine()
    lose_the_metadata_log(machine)
    machine.files.make_directory(DIRECTORY / "orders-0.0123-delete")
    assert not machine.format().is_new


@pytest.mark.parametrize(
    "name", ["00000000000000000007.log", "00000000000000000007-0000000002.checkpoint"]
)
def test_logs_beside_a_metadata_log_or_a_snapshot_of_it_are_those_of_this_node(name: str) -> None:
    machine = Machine()
    lose_the_metadata_log(machine)
    make_log(machine)
    machine.files.open(METADATA / name).close()
    assert not machine.format().is_new


def test_a_node_whose_metadata_others_have_starts_without_its_own() -> None:
    machine = Machine()
    lose_the_metadata_log(machine)
    make_log(machine)
    machine.files.remove_tree(METADATA)
    plan = replace(machine.plan(), only_voter_at=None, is_log_elsewhere=True)
    assert not format_directories(machine.files, [DIRECTORY], DIRECTORY, plan).is_new


def test_a_directory_of_older_software_gets_an_id_once_and_is_else_left_as_it_is() -> None:
    """An id that changes with each start is a new disk to the controller, and a new voter to the
    quorum.
    """
    machine = Machine()
    machine.format()
    older = read_meta_properties(machine.files, DIRECTORY)
    assert older is not None
    write_meta_properties(machine.files, DIRECTORY, replace(older, directory_id=None))
    bootstrap = machine.files.read_bytes(DIRECTORY / "bootstrap.checkpoint")
    changed = format_directories(machine.files, [DIRECTORY], DIRECTORY, machine.plan(records=()))
    assert machine.format().directory_ids == changed.directory_ids
    now = read_meta_properties(machine.files, DIRECTORY)
    assert now == replace(older, directory_id=changed.directory_ids[DIRECTORY])
    assert machine.files.read_bytes(DIRECTORY / "bootstrap.checkpoint") == bootstrap


@pytest.mark.parametrize("operation", ["rename", "sync", "append", "sync_directory"])
@pytest.mark.parametrize("passed_count", range(8))
def test_a_crash_while_formatting_is_mended_by_formatting_again(
    operation: str, passed_count: int
) -> None:
    machine = Machine()
    machine.files.fail_at(operation, passed_count)
    try:
        machine.format()
    except StorageError:
        machine.files.crash()
        assert read_meta_properties(machine.files, DIRECTORY) is None
    machine.files.crash()
    identity = machine.format()
    machine.files.crash()
    assert machine.format().directory_ids == identity.directory_ids
    assert read_bootstrap_records(machine.files, DIRECTORY)
    assert machine.files.list_directory(METADATA) == ["00000000000000000000-0000000000.checkpoint"]


def test_ids_that_mean_something_else_or_look_like_an_option_are_not_drawn() -> None:
    drawn = iter([0, 0xF8 << 120, 5 << 64])
    found = random_id(lambda _bits: next(drawn))
    assert not format_uuid(found).startswith("-")
    assert found.int >= FIRST_FREE_DIRECTORY_ID
