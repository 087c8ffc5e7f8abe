"""Compiles the codecs that every client needs before it needs them.

Codecs are compiled at first use, a millisecond or two each, so that a node starts quickly. What every client asks first would wait for
that; so it is compiled in the background as soon as the listeners are up, one version at a time and the newest first.
"""

import trio
import trio.lowlevel

from log_service.protocol.api_versions import SERVED, ApiKey, request_class, response_class
from log_service.protocol.codec import decoder, encoder

HOT_APIS = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH)


async def warm_up() -> None:
    """Compile, letting everything else go first."""
    for key in HOT_APIS:
        spec = SERVED[key]
        for version in range(spec.max_version, spec.min_version - 1, -1):
            await trio.lowlevel.checkpoint()
            decoder(request_class(key), version)  # type: ignore[arg-type]  # a class is hashable, which the cache cannot tell
            await trio.lowlevel.checkpoint()
            encoder(response_class(key), version)  # type: ignore[arg-type]  # as above
