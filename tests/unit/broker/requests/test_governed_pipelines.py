"""Only governed pipelines and APIs that are not free charge a quota (KIP-13, KIP-124)."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from log_service.broker.quotas import ClientQuotas
from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Call, Deferred, Side
from log_service.common.access import AclOperation, Principal
from log_service.common.errors import ProtocolError
from log_service.config.views import QuotaWindows
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import EMPTY_IMAGE, MetadataImage
from log_service.network.server import ConnectionContext
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.fetch import FetchRequest, ReplicaState
from log_service.protocol.messages.produce import ProduceResponse
from tests.sim import VirtualClock
from tests.unit.metadata.records import quota


def image_with(*records: Any) -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in records:
        delta.replay(record)
    return delta.build(offset=1, epoch=1)


def quotas_of(image: MetadataImage) -> ClientQuotas:
    found = ClientQuotas(VirtualClock(), QuotaWindows())
    found.on_image(MetadataDelta(EMPTY_IMAGE), image)
    return found


@pytest.mark.parametrize("is_first", [True, False])
def test_a_pipeline_is_governed_whether_it_or_the_quotas_come_first(*, is_first: bool) -> None:
    pipeline = cast("Any", SimpleNamespace(quotas=None))
    image = image_with(quota(1.0, "request_percentage", user="u"))
    found = quotas_of(EMPTY_IMAGE if is_first else image)
    found.govern(pipeline)
    found.on_image(MetadataDelta(EMPTY_IMAGE), image)
    assert pipeline.quotas is found
    found.on_image(MetadataDelta(image), EMPTY_IMAGE)
    assert pipeline.quotas is None


def call_of(api: ApiKey, *, side: Side = Side.BROKER, request: Any = None) -> Any:
    connection = SimpleNamespace(principal=SimpleNamespace(name="u"))
    return SimpleNamespace(
        route=SimpleNamespace(api=REGISTRY[api], side=side),
        client_id="c",
        connection=connection,
        request=request,
        access=None,
    )


def fetch(replica_id: int = -1, state: ReplicaState | None = None) -> FetchRequest:
    return FetchRequest(
        replica_id=replica_id, replica_state=ReplicaState() if state is None else state
    )


@pytest.mark.parametrize(
    ("call", "is_charged"),
    [
        pytest.param(call_of(ApiKey.WRITE_TXN_MARKERS), False, id="markers"),
        pytest.param(call_of(ApiKey.METADATA), True, id="a client's question"),
        pytest.param(call_of(ApiKey.FETCH, request=fetch()), True, id="a consumer"),
        pytest.param(
            call_of(ApiKey.FETCH, request=fetch(replica_id=0)), False, id="an older follower"
        ),
        pytest.param(
            call_of(ApiKey.FETCH, request=fetch(state=ReplicaState(replica_id=0))),
            False,
            id="a follower",
        ),
        pytest.param(
            call_of(ApiKey.FETCH, side=Side.CONTROLLER, request=fetch()),
            False,
            id="the metadata log",
        ),
        pytest.param(call_of(ApiKey.SHARE_FETCH), True, id="a member of a share group"),
    ],
)
def test_what_brokers_ask_each_other_is_free(call: Any, *, is_charged: bool) -> None:
    """Followers that are held back by the quota of all users fall out of sync."""
    found = quotas_of(image_with(quota(1.0, "request_percentage", user=None)))
    assert (found.account_of(call, 10, 0) is not None and not found.is_free(call)) is is_charged


@pytest.mark.parametrize("request_", [fetch(replica_id=0), fetch(state=ReplicaState(replica_id=0))])
@pytest.mark.parametrize("is_broker", [True, False])
def test_who_only_says_that_it_is_a_follower_is_charged(
    request_: FetchRequest, *, is_broker: bool
) -> None:
    found = quotas_of(image_with(quota(1.0, "request_percentage", user=None)))
    call = call_of(ApiKey.FETCH, request=request_)
    call.access = SimpleNamespace(
        could_cluster=lambda operation: is_broker and operation is AclOperation.CLUSTER_ACTION
    )
    assert found.account_of(call, 10, 0) is not None
    assert found.is_free(call) is is_broker


class Charges:
    """The charges of request time that a client's quota took, in seconds."""

    def __init__(self) -> None:
        self.quotas = quotas_of(image_with(quota(1.0, "request_percentage", user="u")))
        self.taken: list[float] = []
        self.quotas.spent = cast("Any", SimpleNamespace(charge=self._charge))

    def _charge(self, share: object, amount: float, bound: float, now_ms: int) -> int:
        self.taken.append(round(amount / 100, 3))
        return 0

    def call(self, api: ApiKey) -> Call:
        """A call whose handler took one second."""
        route = call_of(api).route
        connection = ConnectionContext(
            1, "host", "host", "LISTENER", principal=Principal("User", "u")
        )
        call = Call(route, 1, 1, "c", connection, None, None)
        call.account = self.quotas.account_of(
            call, 10, self.quotas.clock.monotonic_ns() - 1_000_000_000
        )
        assert call.account is not None
        call.account.set_aside()
        return call


def with_charges(story: Callable[[Charges], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(Charges())

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("api", [ApiKey.METADATA, ApiKey.PRODUCE])
@pytest.mark.parametrize("end", ["fail", "complete_without_response", "discard"])
def test_work_after_the_handler_is_charged_however_the_request_ends(end: str, api: ApiKey) -> None:
    async def story(charges: Charges) -> None:
        deferred = Deferred(call := charges.call(api))
        with call.counted():
            await trio.sleep(2)
        await trio.sleep(10)
        with call.counted():
            await trio.sleep(3)
            if end == "fail":
                deferred.fail(ProtocolError("no"))
            elif end == "discard":
                deferred.discard()
            else:
                deferred.complete_without_response()
            assert charges.taken == [6]
            await trio.sleep(4)
        with call.counted():
            await trio.sleep(5)
        assert charges.taken == [6, 4, 5], "what is done after the charge is charged as well"

    with_charges(story)


def test_turns_of_a_coroutine_are_charged_and_its_waits_are_not() -> None:
    async def story(charges: Charges) -> None:
        deferred = Deferred(call := charges.call(ApiKey.METADATA))
        clock = cast("VirtualClock", charges.quotas.clock)
        late_ns, now_ns = [0], clock.monotonic_ns
        clock.monotonic_ns = lambda: now_ns() + late_ns[0]  # type: ignore[method-assign]

        def work(seconds: int) -> None:
            late_ns[0] += seconds * 1_000_000_000

        async def waiting() -> Any:
            work(2)
            await trio.sleep(100)
            with call.counted():
                await trio.sleep(3)
            with pytest.raises(trio.TooSlowError), trio.fail_after(1):
                await trio.sleep(100)
            work(4)
            return "done"

        assert await call.counting(waiting()) == "done"
        deferred.fail(ProtocolError("no"))
        assert charges.taken == [10]

    with_charges(story)


@pytest.mark.parametrize(
    ("api", "response", "is_charged"),
    [
        (ApiKey.PRODUCE, ProduceResponse(), True),
        (ApiKey.PRODUCE, None, False),
        (ApiKey.METADATA, None, True),
    ],
)
def test_the_time_of_a_produce_without_a_response_is_free(
    api: ApiKey, response: Any, *, is_charged: bool
) -> None:
    found = quotas_of(image_with(quota(1.0, "request_percentage", user="u")))

    async def charge() -> None:
        account = found.account_of(call_of(api), 10, 0)
        assert account is not None
        account.charge(response)

    trio.run(charge, clock=trio.testing.MockClock())
    assert bool(len(found.spent)) is is_charged
