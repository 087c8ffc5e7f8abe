"""Which requests are charged to a quota: those of pipelines that are governed, and of APIs that are not free (KIP-13, KIP-124)."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from log_service.broker.quotas import ClientQuotas
from log_service.broker.registry import REGISTRY
from log_service.config.views import QuotaWindows
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import EMPTY_IMAGE, MetadataImage
from log_service.protocol.api_versions import ApiKey
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


@pytest.mark.parametrize(("api", "is_charged"), [(ApiKey.WRITE_TXN_MARKERS, False), (ApiKey.METADATA, True)])
def test_what_brokers_ask_each_other_is_free(api: ApiKey, *, is_charged: bool) -> None:
    found = quotas_of(image_with(quota(1.0, "request_percentage", user="u")))
    route = SimpleNamespace(api=REGISTRY[api])
    call = cast("Any", SimpleNamespace(route=route, client_id="c", connection=SimpleNamespace(principal=SimpleNamespace(name="u"))))
    assert (found.account_of(call, 10, 0) is not None) is is_charged
