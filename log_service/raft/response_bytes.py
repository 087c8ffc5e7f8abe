"""Read the bytes of the metadata log for responses to other replicas.

The quorum's rules have already set the position from which the bytes are read.
"""

import logging
from dataclasses import replace

from log_service.common.errors import ErrorCode, KafkaError
from log_service.raft.messages import FetchResponse, FetchSnapshotResponse, Response
from log_service.raft.metadata_log import MetadataLog

logger = logging.getLogger(__name__)


def needs_bytes(response: Response) -> bool:
    """Whether a response must contain records, or a part of a snapshot."""
    return isinstance(response, FetchSnapshotResponse) or (
        isinstance(response, FetchResponse) and response.records_from is not None
    )


def with_bytes(log: MetadataLog, response: Response) -> Response:
    """Return a response with its bytes, or with an error if they cannot be read. Blocks."""
    try:
        if isinstance(response, FetchResponse) and response.records_from is not None:
            return replace(response, records=log.read(response.records_from, response.max_bytes))
        if isinstance(response, FetchSnapshotResponse) and response.snapshot_id is not None:
            return replace(
                response,
                content=log.read_snapshot_slice(
                    response.snapshot_id, response.position, response.max_bytes
                ),
            )
    except (OSError, KafkaError) as error:  # cut or replaced meanwhile: this node leads no more
        logger.warning("A response to another replica could not be read: %s", error)
        return replace(response, error=ErrorCode.UNKNOWN_SERVER_ERROR)
    return response
