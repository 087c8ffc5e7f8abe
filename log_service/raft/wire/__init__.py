"""Converts the quorum's messages to Kafka's messages and back.

- ``requests`` and ``responses``: the conversions. They do not know versions, because the codec
  leaves out fields that a version does not have.
- ``context``: the cluster and the listener, which both need.
"""

from log_service.raft.wire.context import Context, RefusedError
from log_service.raft.wire.requests import read_request, write_request
from log_service.raft.wire.responses import read_response, write_refusal, write_response

__all__ = [
    "Context",
    "RefusedError",
    "read_request",
    "read_response",
    "write_refusal",
    "write_request",
    "write_response",
]
