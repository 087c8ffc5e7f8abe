"""Notes the refusals of simulated clients, and judges them.

Each API may respond to a correct request with certain error codes alone.

One table, ``LEGITIMATE``, decides that. A code that is not in it says that the node built something
invalid itself, lost its way, or refuses without a reason. Clients hide most refusals from their
users, and ask again, so that responses are looked at where they are decoded.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

from log_service.common.errors import ErrorCode
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.schema import Message
from log_service.rpc.connection import RpcConnection
from tests.sim.node_checker import Violation
from tests.sim.node_history import DiskFault, History, Refused
from tests.sim.pauses import HOST

_GONE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
"""Some topics are deleted while they are asked for."""
_ELSEWHERE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_STARTING = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        _GONE,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
_EPOCHS = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH})
_MEMBER = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)

LEGITIMATE: Mapping[ApiKey, frozenset[ErrorCode]] = {
    ApiKey.PRODUCE: _STARTING
    | {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER},
    ApiKey.FETCH: _STARTING
    | _EPOCHS
    | {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    },
    ApiKey.LIST_OFFSETS: _STARTING | _EPOCHS | {ErrorCode.OFFSET_NOT_AVAILABLE},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _STARTING | _EPOCHS,
    ApiKey.DELETE_RECORDS: _STARTING,
    ApiKey.METADATA: frozenset({_GONE, ErrorCode.LEADER_NOT_AVAILABLE}),
    ApiKey.FIND_COORDINATOR: _ELSEWHERE,
    ApiKey.JOIN_GROUP: _ELSEWHERE | _MEMBER | {ErrorCode.MEMBER_ID_REQUIRED},
    ApiKey.SYNC_GROUP: _ELSEWHERE | _MEMBER,
    ApiKey.HEARTBEAT: _ELSEWHERE | _MEMBER,
    ApiKey.LEAVE_GROUP: _ELSEWHERE | _MEMBER,
    ApiKey.OFFSET_COMMIT: _ELSEWHERE | _MEMBER | {ErrorCode.GROUP_ID_NOT_FOUND},
    ApiKey.OFFSET_FETCH: _ELSEWHERE,
    ApiKey.CREATE_TOPICS: frozenset({ErrorCode.TOPIC_ALREADY_EXISTS}),
    ApiKey.DELETE_TOPICS: frozenset({_GONE}),
    ApiKey.CREATE_PARTITIONS: frozenset({_GONE, ErrorCode.INVALID_PARTITIONS}),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: frozenset({_GONE}),
    ApiKey.DESCRIBE_CONFIGS: frozenset({_GONE}),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: frozenset({_GONE}),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _STARTING,
}
"""Every API that may refuse something; KAFKA_STORAGE_ERROR comes to each of them once a disk was at
fault.
"""


def check_refusals(
    history: History, legitimate: Mapping[ApiKey, frozenset[ErrorCode]] = LEGITIMATE
) -> Iterator[Violation]:
    """Nothing is refused without a reason."""
    first_fault_at = min((fault.at for fault in history.of(DiskFault)), default=None)
    for refused in history.of(Refused):
        if refused.code is ErrorCode.KAFKA_STORAGE_ERROR:
            is_legitimate = first_fault_at is not None and first_fault_at < refused.at
        else:
            is_legitimate = refused.code in legitimate.get(ApiKey(refused.api_key), ())
        if not is_legitimate:
            yield Violation(
                "nothing is refused without a reason",
                f"{ApiKey(refused.api_key).name} got {refused.code.name}: {refused.text}",
            )


@contextmanager
def refusals_noted(histories: Mapping[str, History]) -> Iterator[None]:
    """Write down what clients are refused, each in the history that its node's host has here."""
    ask = RpcConnection.request

    async def request(
        self: RpcConnection, request: Message, *arguments: Any, **options: Any
    ) -> Any:
        response = await ask(self, request, *arguments, **options)
        for part in () if HOST.get() else refusals(response):
            # What nodes tell each other is theirs to judge.
            text = getattr(part, "error_message", None) or repr(part)
            code = ErrorCode.of(part.error_code)
            histories[self.destination.host].add(
                Refused(api_key=request.SCHEMA.key or 0, code=code, text=text[:200])
            )
        return response

    with mock.patch.object(RpcConnection, "request", request):
        yield


def refusals(part: Any) -> Iterator[Any]:
    """Yield the parts of a response that carry an error code."""
    kind: type = type(part)
    has_code, inner = _places_of_codes(kind)
    if has_code and part.error_code != ErrorCode.NONE:
        yield part
    for name, is_array in inner:
        found = getattr(part, name)
        for each in found or () if is_array else () if found is None else (found,):
            yield from refusals(each)


@cache
def _places_of_codes(kind: Any) -> tuple[bool, tuple[tuple[str, bool], ...]]:
    """Return whether a part of a response has an error code, and its members with one.

    Each has its name, and whether it is a list.
    """
    fields = kind.SCHEMA.fields
    inner = tuple(
        (each.name, each.is_array)
        for each in fields
        if each.struct is not None and any(_places_of_codes(each.struct))
    )
    return any(each.name == "error_code" for each in fields), inner
