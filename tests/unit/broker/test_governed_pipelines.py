"""Which requests are charged to a quota: those of pipelines that are governed, and of APIs that are not free (KIP-13, KIP-124)."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from log_service.broker.call import Side
from log_service.broker.quotas import ClientQuotas
from log_service.broker.registry import REGISTRY
from log_service.common.access import AclOperation
from log_service.config.views import QuotaWindows
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import EMPTY_IMAGE, MetadataImage
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
        route=SimpleNamespace(api=REGISTRY[api], side=side), client_id="c", connection=connection, request=request, access=None
    )


def fetch(replica_id: int = -1, state: ReplicaState | None = None) -> FetchRequest:
    return FetchRequest(replica_id=replica_id, replica_state=ReplicaState() if state is None else state)


@pytest.mark.parametrize(
    ("call", "is_charged"),
    [
        pytest.param(call_of(ApiKey.WRITE_TXN_MARKERS), False, id="markers"),
        pytest.param(call_of(ApiKey.METADATA), True, id="a client's question"),
        pytest.param(call_of(ApiKey.FETCH, request=fetch()), True, id="a consumer"),
        pytest.param(call_of(ApiKey.FETCH, request=fetch(replica_id=0)), False, id="an older follower"),
        pytest.param(call_of(ApiKey.FETCH, request=fetch(state=ReplicaState(replica_id=0))), False, id="a follower"),
        pytest.param(call_of(ApiKey.FETCH, side=Side.CONTROLLER, request=fetch()), False, id="the metadata log"),
        pytest.param(call_of(ApiKey.SHARE_FETCH), True, id="a member of a share group"),
    ],
)
def test_what_brokers_ask_each_other_is_free(call: Any, *, is_charged: bool) -> None:
    """Followers that are held back by the quota of all users fall out of sync."""
    found = quotas_of(image_with(quota(1.0, "request_percentage", user=None)))
    assert (found.account_of(call, 10, 0) is not None and not found.is_free(call)) is is_charged


@pytest.mark.parametrize("request_", [fetch(replica_id=0), fetch(state=ReplicaState(replica_id=0))])
@pytest.mark.parametrize("is_broker", [True, False])
def test_who_only_says_that_it_is_a_follower_is_charged(request_: FetchRequest, *, is_broker: bool) -> None:
    found = quotas_of(image_with(quota(1.0, "request_percentage", user=None)))
    call = call_of(ApiKey.FETCH, request=request_)
    call.access = SimpleNamespace(could_cluster=lambda operation: is_broker and operation is AclOperation.CLUSTER_ACTION)
    assert found.account_of(call, 10, 0) is not None
    assert found.is_free(call) is is_broker


@pytest.mark.parametrize(
    ("api", "response", "is_charged"),
    [(ApiKey.PRODUCE, ProduceResponse(), True), (ApiKey.PRODUCE, None, False), (ApiKey.METADATA, None, True)],
)
def test_the_time_of_a_produce_without_a_response_is_free(api: ApiKey, response: Any, *, is_charged: bool) -> None:
    found = quotas_of(image_with(quota(1.0, "request_percentage", user="u")))

    async def charge() -> None:
        account = found.account_of(call_of(api), 10, 0)
        assert account is not None
        account.charge(response)

    trio.run(charge, clock=trio.testing.MockClock())
    assert bool(len(found.spent)) is is_charged
