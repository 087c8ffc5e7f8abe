"""An authorizer that lets nothing pass, and quotas by which every request has to pause."""

from contextlib import AbstractContextManager, nullcontext

from log_service.broker.requests.call import Api, Call
from log_service.common.errors import ErrorCode, KafkaError
from log_service.network.server import ConnectionContext
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.schema import Message

CODE = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class Denial:
    """An authorizer that lets nothing pass, and remembers what it saw."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def authorize(self, call: Call) -> None:
        self.calls.append(call)
        raise KafkaError(CODE, "no")


class Throttle:
    """Quotas by which every request has to pause its connection for so long."""

    def __init__(self, pause_ms: int) -> None:
        self.pause_ms = pause_ms
        self.charged: list[tuple[ApiKey, int, Message | None]] = []

    def put_off_ms(self, api: Api, connection: ConnectionContext, client_id: str | None) -> int:
        return 0

    def is_free(self, call: Call) -> bool:
        return False

    def account_of(self, call: Call, request_bytes: int, started_ns: int) -> "Account":
        return Account(self, call.route.api.key, request_bytes)


class Account:
    def __init__(self, throttle: Throttle, key: ApiKey, request_bytes: int) -> None:
        self.throttle = throttle
        self.key = key
        self.request_bytes = request_bytes
        self.max_fetch_bytes = None

    def set_aside(self) -> None:
        """Time is not counted here."""

    def counted(self) -> AbstractContextManager[None]:
        return nullcontext()

    def must_pause(self, response_bytes: int) -> bool:
        return False

    def charge(self, response: Message | None) -> int:
        self.throttle.charged.append((self.key, self.request_bytes, response))
        return self.throttle.pause_ms
