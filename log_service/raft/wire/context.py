"""The context of a message between quorum members, and the check that it is for this quorum.

This file decides which partition of a message counts: the only one of the metadata log.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from log_service.common.errors import ErrorCode
from log_service.common.types import CLUSTER_METADATA_TOPIC

TOPIC_ID = UUID(int=1)
NO_ID = -1


class RefusedError(Exception):
    """A message is not for this quorum, or holds no response.

    ``code`` is the error of the whole message.
    """

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a message: the cluster, the timeout, and the listener of its addresses."""

    cluster_id: str | None
    listener_name: str
    timeout_ms: int = 0


def only_partition(
    topics: Sequence[Any], name_of: str = "topic_name", index_of: str = "partition_index"
) -> Any:
    """Return the only partition of a message.

    ``name_of`` and ``index_of`` are the fields with the topic and the partition's index.

    Raises:
        RefusedError: the message names several partitions, or a wrong one.
    """
    wanted = TOPIC_ID if name_of == "topic_id" else CLUSTER_METADATA_TOPIC
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            f"{CLUSTER_METADATA_TOPIC}-0 has a quorum of its own: name it alone",
        )
    partition = topics[0].partitions[0]
    if getattr(topics[0], name_of) != wanted or getattr(partition, index_of) != 0:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, f"only {CLUSTER_METADATA_TOPIC}-0 has a quorum"
        )
    return partition
