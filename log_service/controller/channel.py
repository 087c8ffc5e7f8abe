"""The channel from a broker to the active controller, in this process or on another node.

This file decides only where a request goes. It goes to the controller in this process while this
controller is active, otherwise over the network to the leader of the quorum. Until the request's
timeout, the channel looks for the leader again if the leader cannot be reached or returns
NOT_CONTROLLER, or if another node leads before the response has arrived. The messages are the same
in both cases, but in process they are not encoded. A client's request goes to another node in an
envelope, with the client's principal (KIP-590).

Heartbeats, AlterPartition requests and clients' requests have a connection each, because responses
come in the order of requests, and a client's request may wait long. If a connection breaks after a
request was sent, the controller may have decided the request. It is sent again only if that does no
harm (``REPEATABLE``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import trio

from log_service.common.access import Admission
from log_service.common.errors import ErrorCode, KafkaError
from log_service.controller.caller import Caller
from log_service.controller.driver import ControllerDriver, out_of_time
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.schema import Message
from log_service.raft.errors import not_controller
from log_service.rpc.retry import Backoff, retry

if TYPE_CHECKING:
    from log_service.rpc.connection import Destination, RpcConnection
    from log_service.rpc.pool import ConnectionPool
    from log_service.rpc.versions import SpokenVersions

R = TypeVar("R", bound=Message)

DEFAULT_TIMEOUT_MS = 30_000
"""Timeout of a message that has none of its own."""
BACKOFF = Backoff(first_ms=50, max_ms=1_000)
UNREACHABLE = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})
REPEATABLE = frozenset(
    {
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
    }
)
"""Requests that a broker may repeat.

A repeated request has the same effect, or allocates another block of producer ids.
"""
PURPOSES: Mapping[int, str] = MappingProxyType(
    {
        ApiKey.BROKER_HEARTBEAT: "heartbeats",
        ApiKey.BROKER_REGISTRATION: "heartbeats",
        ApiKey.ALTER_PARTITION: "in-sync sets",
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: "directories",
    }
)
"""The purpose of the connection for an API. All other APIs share one connection."""
FORWARDING = "forwarding"
ATTEMPT_MS: Mapping[int, int] = MappingProxyType(
    {ApiKey.BROKER_HEARTBEAT: 4_500, ApiKey.BROKER_REGISTRATION: 4_500}
)
"""Timeout of one attempt for requests that a broker's session depends on."""
LOOK_MS = 100
"""Interval at which a request that waits for another node checks whether that node still leads."""


NO_CONTROLLER = (
    "no active controller is known: no majority of the controllers has elected one, or this node"
    " cannot reach them"
)
ASKED_OF_THE_LEADER = frozenset(
    {ApiKey.ADD_RAFT_VOTER, ApiKey.DESCRIBE_QUORUM, ApiKey.REMOVE_RAFT_VOTER}
)
"""Requests that only the leader of the quorum answers.

Other nodes return NOT_LEADER_OR_FOLLOWER.
"""


class ControllerChannel(Protocol):
    """Sends a broker's requests to the active controller."""

    def spoken_versions(self) -> "SpokenVersions | None":
        """Return the API versions that the active controller supports.

        Return None if this node is the active controller, or has no open connection to it.
        """

    async def request(
        self, request: Message, response_type: type[R], caller: Caller | None = None
    ) -> R:
        """Return the controller's response, once all metadata that the decision read is committed.

        ``caller`` is the client that sent the request, None for the broker's own requests.

        Raises:
            KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT, NETWORK_EXCEPTION, or the error that
                refuses the request as a whole.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeToControllerChannel:
    """The ``ControllerChannel`` of a node.

    Requests go to ``local``, this node's controller, while it is active. Otherwise they go to the
    node that ``find`` returns, through the connections of ``pool()``. The pool is created on first
    use. A quorum of one has no other node to ask, and does not import the modules for that.
    """

    local: ControllerDriver
    find: "Callable[[], Destination | None]"
    pool: "Callable[[], ConnectionPool]"
    rng: Random
    admit: Callable[[Message, type[Message], Caller], Admission | None] | None = None
    """Authorize a client's request that this node decides.

    None if there is no authorizer. A request that goes to another node is authorized there. Raises
    KafkaError if the request is refused as a whole.
    """

    async def request(
        self, request: Message, response_type: type[R], caller: Caller | None = None
    ) -> R:
        """Return the active controller's response. See ``ControllerChannel``."""
        if self.local.is_active:
            try:
                return await self._decide_here(request, response_type, caller)
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
        timeout_ms: int = getattr(request, "timeout_ms", DEFAULT_TIMEOUT_MS)
        if timeout_ms <= 0:
            raise out_of_time(timeout_ms)

        async def attempt(_failed_count: int) -> R:
            if self.local.is_active:
                return await self._decide_here(request, response_type, caller)
            return await self._ask_elsewhere(request, response_type, timeout_ms, caller)

        try:
            return await retry(
                attempt,
                timeout_ms=timeout_ms,
                backoff=BACKOFF,
                rng=self.rng,
                is_retriable=lambda error: _may_repeat(request, error),
            )
        except KafkaError as error:
            if caller is None or error.code is not ErrorCode.NETWORK_EXCEPTION:
                raise
            text = f"the active controller was lost while it decided, and may have done so: {error}"
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, text
            ) from error  # the client's own connection is fine

    async def _decide_here(
        self, request: Message, response_type: type[R], caller: Caller | None
    ) -> R:
        """Let this node's controller decide the parts of a request that its client may request."""
        admission = (
            None
            if caller is None or self.admit is None
            else self.admit(request, response_type, caller)
        )
        if admission is None:
            return await self.local.request(request, response_type, caller)
        response = admission.response
        if response is None:
            response = await self.local.request(admission.request, response_type, caller)
            if admission.amend is not None:
                response = admission.amend(response)
        assert isinstance(response, response_type), "an API has one class of responses"
        return response

    def spoken_versions(self) -> "SpokenVersions | None":
        """Return the API versions that the active controller supports.

        Return None if this node is the active controller, or has no open connection to it.
        """
        found = None if self.local.is_active else self.find()
        connection = (
            None if found is None else self.pool().connected(replace(found, purpose=FORWARDING))
        )
        return None if connection is None else connection.versions

    async def _ask_elsewhere(
        self, request: Message, response_type: type[R], timeout_ms: int, caller: Caller | None
    ) -> R:
        """Send the request to the quorum's current leader. Give up if that node stops leading.

        Raises:
            KafkaError: NOT_CONTROLLER, no leader is known or reachable. NETWORK_EXCEPTION, the
                leader did not respond. Or the error that refuses the request as a whole.
        """
        found = self.find()
        if found is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, NO_CONTROLLER)
        key: int = request.SCHEMA.key  # type: ignore[assignment]  # a whole message has a key
        destination = replace(found, purpose=PURPOSES.get(key, FORWARDING))
        failure: KafkaError | None = None
        response: R | None = None
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.deadline = (
                trio.current_time() + ATTEMPT_MS.get(key, timeout_ms) / 1_000
            )
            nursery.start_soon(self._until_moved, found, nursery.cancel_scope)
            try:
                response = await self._exchange(
                    destination, request, response_type, timeout_ms, caller
                )
            except KafkaError as error:
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # its traceback holds this frame
        if response is None:
            self.pool().channel(
                destination
            ).close()  # requests that wait there for a silent node would delay the next ones
            raise KafkaError(
                ErrorCode.NETWORK_EXCEPTION,
                f"{destination} did not answer as the active controller",
            )
        return response

    async def _until_moved(self, found: "Destination", asking: trio.CancelScope) -> None:
        """Cancel a request as soon as the node that got it no longer leads the quorum."""
        while self.find() == found:  # noqa: ASYNC110 - the quorum has no callback
            await trio.sleep(LOOK_MS / 1_000)
        asking.cancel()

    async def _exchange(
        self,
        destination: "Destination",
        request: Message,
        response_type: type[R],
        timeout_ms: int,
        caller: Caller | None,
    ) -> R:
        try:
            connection = await self.pool().connect(destination)
        except KafkaError as error:
            text = f"the active controller cannot be reached: {error}"
            raise KafkaError(ErrorCode.NOT_CONTROLLER, text) from error
        if caller is not None:
            return await forward_request(connection, request, response_type, timeout_ms, caller)
        response = await connection.request(request, response_type, waits_ms=timeout_ms)
        raise_refusal(response)
        return response


async def forward_request(
    connection: "RpcConnection",
    request: Message,
    response_type: type[R],
    timeout_ms: int,
    caller: Caller,
) -> R:
    """Send a client's request in an envelope, and return the controller's response unchanged.

    Raises:
        KafkaError: NOT_CONTROLLER, another node is the active controller; or the errors of
            ``open_response``.
    """
    from log_service.controller.envelope import (  # noqa: PLC0415 - a quorum of one asks no other node
        envelope_of,
        open_response,
    )
    from log_service.protocol.messages.envelope import EnvelopeResponse  # noqa: PLC0415 - as above

    sent = await connection.request(
        envelope_of(request, caller), EnvelopeResponse, waits_ms=timeout_ms
    )
    response = open_response(sent, response_type, caller)
    if is_for_another(response):
        raise not_controller()
    return response


def is_for_another(response: Message) -> bool:
    """Whether an error in a response means that another node is the active controller."""
    is_led_elsewhere = response.SCHEMA.key in ASKED_OF_THE_LEADER and _holds(
        response, ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    return is_led_elsewhere or _holds(response, ErrorCode.NOT_CONTROLLER)


def _may_repeat(request: Message, error: KafkaError) -> bool:
    return error.code is ErrorCode.NOT_CONTROLLER or (
        error.code in UNREACHABLE and request.SCHEMA.key in REPEATABLE
    )


def raise_refusal(response: Message) -> None:
    """Raise the error of a response that refuses its request as a whole.

    Raises:
        KafkaError: the error of the response. NOT_CONTROLLER, another node is the active
            controller.
    """
    if is_for_another(response):
        raise not_controller()
    code = getattr(response, "error_code", ErrorCode.NONE)
    if code != ErrorCode.NONE:
        error = ErrorCode.of(code)
        raise KafkaError(error, getattr(response, "error_message", None) or error.name)


def _holds(value: Any, code: ErrorCode) -> bool:
    """Whether a response contains an error code at any depth."""
    if isinstance(value, list):
        return any(_holds(each, code) for each in value)
    if not is_dataclass(value):
        return False
    return getattr(value, "error_code", ErrorCode.NONE) == code or any(
        _holds(getattr(value, each.name), code) for each in fields(value)
    )
