"""The file ``quorum-state``: JSON of data version 1, in the directory of the metadata log.

This module decides the format. ``raft.roles`` decides the meaning. The file is replaced by a
rename, and the new content is durable before any message that follows from it leaves the node.
"""

import json
from pathlib import Path

from log_service.common.env import Files
from log_service.common.errors import StorageError
from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft.roles import ElectionState
from log_service.raft.voters import NO_DIRECTORY
from log_service.storage.partition_metadata import format_uuid, parse_uuid

FILE_NAME = "quorum-state"
DATA_VERSION = 1


def read_quorum_state(files: Files, directory: Path) -> ElectionState | None:
    """Return the election state in the file, or None if there is no file.

    Raises:
        StorageError: the file is not JSON, or has an unknown data version.
    """
    path = directory / FILE_NAME
    try:
        content = files.read_bytes(path)
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(content)
        version = int(fields["data_version"])
        state = ElectionState(
            leader_id=NodeId(int(fields["leaderId"])),
            leader_epoch=LeaderEpoch(int(fields["leaderEpoch"])),
            voted_id=NodeId(int(fields["votedId"])),
            voted_directory_id=(
                parse_uuid(fields["votedDirectoryId"]) if version > 0 else NO_DIRECTORY
            ),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"{path} is damaged ({error}); restore it from a copy, the node must not guess its"
            " epoch"
        ) from error
    if version > DATA_VERSION:
        raise StorageError(
            f"{path} has data version {version}, newer than {DATA_VERSION}; start it with the"
            " version that wrote it"
        )
    return state


def write_quorum_state(files: Files, directory: Path, state: ElectionState) -> None:
    """Replace the file by a new election state. The change is durable on return."""
    fields = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
        "votedDirectoryId": format_uuid(state.voted_directory_id),
        "data_version": DATA_VERSION,
    }
    files.write_atomically(
        directory / FILE_NAME, json.dumps(fields, separators=(",", ":")).encode()
    )
