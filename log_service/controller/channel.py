"""The way from a broker to the active controller, wherever that is.

Decides only where a request goes: to the controller in this process while it is the active one, else over the network to the node that
leads the quorum. After NOT_CONTROLLER, and where that node cannot be reached, the channel looks for the leader again, until the
request's time is over. The messages are the same both ways; in process they are not encoded.

A request whose connection broke after it was sent may have been decided: it is sent again only where that does no harm (``REPEATABLE``).
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from log_service.common.errors import ErrorCode, KafkaError
from log_service.controller.driver import ControllerDriver
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.schema import Message
from log_service.raft.waits import not_controller
from log_service.rpc.retry import Backoff, retry

if TYPE_CHECKING:
    from log_service.rpc.connection import Endpoint
    from log_service.rpc.pool import ConnectionPool

R = TypeVar("R", bound=Message)

DEFAULT_TIMEOUT_MS = 30_000
"""How long a message without a time of its own looks for the controller."""
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
"""What a broker may say twice: the second time says the same, or takes another block."""


class ControllerChannel(Protocol):
    """Where a broker sends what the controller decides."""

    async def request(self, request: Message, response_type: type[R]) -> R:
        """Return the controller's response, once everything that the decision has seen is committed.

        Raises:
            KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT, NETWORK_EXCEPTION, or what refuses the request as a whole.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveController:
    """The ``ControllerChannel`` of a node: ``local`` while that is active, else the node that ``find`` returns, through ``pool()``.

    The pool is made when it is first asked for: a quorum of one has no other node to ask, and does not import what it takes.
    """

    local: ControllerDriver
    find: "Callable[[], Endpoint | None]"
    pool: "Callable[[], ConnectionPool]"
    rng: Random

    async def request(self, request: Message, response_type: type[R]) -> R:
        """Return the active controller's response; see ``ControllerChannel``."""
        if self.local.is_active:
            try:
                return await self.local.request(request, response_type)
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
        timeout_ms: int = getattr(request, "timeout_ms", DEFAULT_TIMEOUT_MS)

        async def attempt(_failed_count: int) -> R:
            if self.local.is_active:
                return await self.local.request(request, response_type)
            return await self._ask_elsewhere(request, response_type, timeout_ms)

        return await retry(
            attempt, timeout_ms=timeout_ms, backoff=BACKOFF, rng=self.rng, is_retriable=lambda error: _may_repeat(request, error)
        )

    async def _ask_elsewhere(self, request: Message, response_type: type[R], timeout_ms: int) -> R:
        endpoint = self.find()
        if endpoint is None:
            raise not_controller()
        try:
            connection = await self.pool().connect(endpoint)
        except KafkaError as error:
            text = f"the active controller cannot be reached: {error}"
            raise KafkaError(ErrorCode.NOT_CONTROLLER, text) from error
        response = await connection.request(request, response_type, waits_ms=timeout_ms)
        raise_refusal(response)
        return response


def _may_repeat(request: Message, error: KafkaError) -> bool:
    return error.code is ErrorCode.NOT_CONTROLLER or (error.code in UNREACHABLE and request.SCHEMA.key in REPEATABLE)


def raise_refusal(response: Message) -> None:
    """Raise the error of a response that refuses its request as a whole, and NOT_CONTROLLER wherever in the response it stands.

    Raises:
        KafkaError: the error.
    """
    code = getattr(response, "error_code", ErrorCode.NONE)
    if code != ErrorCode.NONE:
        error = ErrorCode.of(code)
        raise KafkaError(error, getattr(response, "error_message", None) or error.name)
    if _holds_not_controller(response):
        raise not_controller()


def _holds_not_controller(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_holds_not_controller, value))
    if not is_dataclass(value):
        return False
    if getattr(value, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
        return True
    return any(_holds_not_controller(getattr(value, each.name)) for each in fields(value))
