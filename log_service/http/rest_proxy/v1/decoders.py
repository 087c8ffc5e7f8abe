"""Lets decoders of records read schemas from the registry with the login of a request."""

from collections.abc import Callable
from functools import partial

from log_service.client import SchemaRegistryClient
from log_service.http.cluster_clients.credentials import Credentials
from log_service.http.cluster_clients.pool import LoginClients
from log_service.http.record_formats.decoding import RecordDecoder
from log_service.http.rest_proxy.settings import RestSettings


async def shared_decoder(settings: RestSettings, clients: LoginClients) -> RecordDecoder:
    """Return a decoder for one request, with the registry client that the login shares."""
    make = registry_maker(settings, clients.credentials)
    if make is None:
        return RecordDecoder(None)
    return RecordDecoder(await clients.shared_client("the registry client of decoders", make))


def registry_maker(
    settings: RestSettings, login: Credentials | None
) -> Callable[[], SchemaRegistryClient] | None:
    """Return a function that makes a registry client with the login, None without a registry."""
    if not settings.registry_url:
        return None
    client = settings.registry_client
    given = dict(client) if login is None else login.registry_settings(client)
    return partial(SchemaRegistryClient, settings.registry_url, **given)
