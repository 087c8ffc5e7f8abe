"""Processes that do what a registry does, until they may not. A test pauses and kills them."""

from functools import partial

import click
import trio

from log_service.client import Admin
from log_service.http.schema_registry.election.elector import ElectionSettings, Elector
from log_service.http.schema_registry.election.protocol import RegistryInstance
from log_service.http.schema_registry.log.errors import OutcomeUnknown, Superseded
from tests.integration.http.schema_logs import TIMEOUT_MS, open_log

SUPERSEDED, OUTCOME_UNKNOWN = 11, 12


def write_on(arguments: list[str]) -> int:
    """Take a topic over and write into it for ever, whoever leads. Prints each acknowledged key
    with its offset.
    """
    servers, topic = arguments
    return trio.run(_write_on, servers, topic)


async def _write_on(servers: str, topic: str) -> int:
    async with open_log(servers, topic) as log:
        await log.take_over(TIMEOUT_MS)
        number = 0
        while True:
            number += 1
            try:
                offset = await log.put(b"paused %d" % number)
            except Superseded:
                return SUPERSEDED
            except OutcomeUnknown:
                return OUTCOME_UNKNOWN
            click.echo(f"wrote {number} {offset}")


def take_part(arguments: list[str]) -> int:
    """Take part in the election for ever. Prints that it leads."""
    servers, group, host = arguments
    trio.run(_take_part, servers, group, host)
    return 0


async def _take_part(servers: str, group: str, host: str) -> None:
    async with Admin(servers) as admin, trio.open_nursery() as nursery:
        elector = Elector(election_of(group, host), admin)
        nursery.start_soon(elector.run)
        seen = elector.leadership
        while True:
            seen = await elector.wait_changed(seen)
            click.echo("leads" if seen.is_self else "follows")


def election_of(group: str, host: str) -> ElectionSettings:
    """Return settings of a member whose session is short."""
    instance = RegistryInstance(scheme="http", host=host, port=8081)
    return ElectionSettings(
        instance=instance, group=group, session_timeout_ms=2_000, heartbeat_interval_ms=300
    )


wait_in_thread = partial(trio.to_thread.run_sync, abandon_on_cancel=True)
