"""Compiles and imports code before clients need it.

Codecs are compiled at first use, in a millisecond or two each. Most handlers are imported at first
use, in some milliseconds each, so that a node starts quickly. A client would wait for that.
Therefore it is done in the background once the node serves its listeners, in small pieces. First
come the codecs of requests that every client sends, the newest version first. Then come the
handlers for producers and consumers, with their messages. Handlers for other nodes and operators
are left out, because most nodes never need them and they would take memory in each of them.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import trio
import trio.lowlevel

from log_service.broker.api_rows import OnDemand
from log_service.broker.requests.call import Api, Authorizer, Side
from log_service.protocol.api_versions import ApiKey, request_class, response_class
from log_service.protocol.codec import decoder, encoder
from log_service.records.checks import checks_at_once

HOT_APIS = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH)
WARM_APIS = (
    ApiKey.LIST_OFFSETS,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_COMMIT,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)


async def warm_up(apis: Mapping[ApiKey, Api], authorizer: Authorizer | None = None) -> None:
    """Compile codecs and import handlers, in small pieces. All other tasks go first.

    Gates are imported only if the node has an authorizer.
    """
    for piece in (*_codecs(apis), *_imports(apis, has_authorizer=authorizer is not None)):
        await trio.lowlevel.checkpoint()
        piece()


def _codecs(apis: Mapping[ApiKey, Api]) -> Iterator[Callable[[], object]]:
    for key in HOT_APIS:
        spec = apis[key].spec
        for version in range(spec.max_version, spec.min_version - 1, -1):
            yield partial(decoder, request_class(key), version)  # type: ignore[arg-type]  # a class is hashable, which the cache cannot tell
            yield partial(encoder, response_class(key), version)  # type: ignore[arg-type]  # as above


def _imports(apis: Mapping[ApiKey, Api], *, has_authorizer: bool) -> Iterator[Callable[[], object]]:
    yield checks_at_once
    for api in map(apis.__getitem__, (*HOT_APIS, *WARM_APIS)):
        if isinstance(api.handler, OnDemand):
            yield partial(request_class, api.key)
            yield api.handler.load
        gate = api.gates.get(Side.BROKER)
        if has_authorizer and isinstance(gate, OnDemand):
            yield gate.load
