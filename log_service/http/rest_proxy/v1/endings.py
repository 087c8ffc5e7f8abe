"""The reasons for the end of a stream."""

from dataclasses import dataclass
from typing import Final

from log_service.client import ErrorCode, KafkaError
from log_service.http.rest_proxy import errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The reason for the end of a stream: ``reason`` for programs, ``message`` for people."""

    reason: str
    message: str


OUT_OF_RANGE: Final = "offset_out_of_range"
LIMIT: Final = Ending(reason="limit", message="As many records were sent as limit allows.")
CAUGHT_UP: Final = Ending(reason="caught_up", message="All records of the log were sent.")
STOPPING: Final = Ending(reason="stopping", message="The proxy stops. Ask another one.")
LOGIN: Final = Ending(reason="login", message="The login is not right any more. Log in anew.")
DELETED: Final = Ending(reason="topic_deleted", message="The topic was deleted.")
FAILED: Final = Ending(reason="error", message="The proxy failed, and its log says why.")


def ending_of(error: KafkaError) -> Ending:
    """Return the reason for the end of a stream after an error of the cluster."""
    if error.code in errors.NO_TOPIC:
        return DELETED
    if error.code is ErrorCode.SASL_AUTHENTICATION_FAILED:
        return LOGIN
    reason = "error"
    if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
        reason = OUT_OF_RANGE
    elif errors.of_cluster(error).code == errors.FORBIDDEN:
        reason = "forbidden"
    return Ending(reason=reason, message=str(error))
