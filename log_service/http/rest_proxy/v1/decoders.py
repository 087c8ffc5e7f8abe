"""Opens decoders of records. They read schemas from the registry with the login of a request."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import trio

from log_service.client import SchemaRegistryClient
from log_service.http.cluster_clients.credentials import Credentials
from log_service.http.cluster_clients.pool import LoginClients
from log_service.http.record_formats.decoding import RecordDecoder
from log_service.http.rest_proxy.settings import RestSettings


@asynccontextmanager
async def open_decoder(
    settings: RestSettings, login: Credentials | None
) -> AsyncIterator[RecordDecoder]:
    """Yield a decoder with its own registry client, because it may outlive the login's clients."""
    make = _registry_maker(settings, login)
    if make is None:
        yield RecordDecoder(None)
        return
    async with await trio.to_thread.run_sync(make) as registry:  # it reads trust stores
        yield RecordDecoder(registry)


async def shared_decoder(settings: RestSettings, clients: LoginClients) -> RecordDecoder:
    """Return a decoder for one request, with the registry client that the login shares."""
    make = _registry_maker(settings, clients.credentials)
    if make is None:
        return RecordDecoder(None)
    return RecordDecoder(await clients.shared_client("the registry client of decoders", make))


def _registry_maker(
    settings: RestSettings, login: Credentials | None
) -> Callable[[], SchemaRegistryClient] | None:
    """Return a function that makes a registry client with the login, None without a registry."""
    if not settings.registry_url:
        return None
    client = settings.registry_client
    given = dict(client) if login is None else login.registry_settings(client)
    return partial(SchemaRegistryClient, settings.registry_url, **given)
