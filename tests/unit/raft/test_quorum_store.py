"""A replica remembers elections in Kafka's own file."""

from pathlib import Path
from uuid import UUID

import pytest

from log_service.common.errors import StorageError
from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft.quorum_store import read_quorum_state, write_quorum_state
from log_service.raft.roles import ElectionState
from tests.sim.files import MemoryFiles

HOME = Path("/log")
STATE = ElectionState(leader_id=NodeId(1), leader_epoch=LeaderEpoch(3))


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(HOME)
    return files


def test_the_quorum_state_is_written_as_kafka_writes_it(files: MemoryFiles) -> None:
    write_quorum_state(files, HOME, STATE)
    assert files.read_bytes(HOME / "quorum-state") == (
        b'{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    assert read_quorum_state(files, HOME) == STATE


def test_a_vote_is_remembered_with_its_directory(files: MemoryFiles) -> None:
    voted = ElectionState(
        leader_id=NodeId(-1),
        leader_epoch=LeaderEpoch(4),
        voted_id=NodeId(2),
        voted_directory_id=UUID(int=7),
    )
    write_quorum_state(files, HOME, voted)
    assert read_quorum_state(files, HOME) == voted


def test_data_version_zero_has_no_directory(files: MemoryFiles) -> None:
    files.write_atomically(
        HOME / "quorum-state",
        b'{"leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,"data_version":0}',
    )
    assert read_quorum_state(files, HOME) == STATE


def test_without_the_file_nothing_is_known(files: MemoryFiles) -> None:
    assert read_quorum_state(files, HOME) is None


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "damaged"),
        (b"[]", "damaged"),
        (b'{"leaderId":1}', "damaged"),
        (
            b'{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"?","data_version":1}',
            "damaged",
        ),
        (
            b'{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":2}',
            "newer than 1",
        ),
    ],
)
def test_a_file_that_cannot_be_trusted_is_refused_by_name(
    files: MemoryFiles, content: bytes, named: str
) -> None:
    files.write_atomically(HOME / "quorum-state", content)
    with pytest.raises(StorageError, match=named) as raised:
        read_quorum_state(files, HOME)
    assert "quorum-state" in str(raised.value)
