"""A project's runs use secrets.

It has a source, an asset that looks around while it runs, and two that fail. A process of its own.

Prints which of its objects, and which processes' arguments, show the cluster's password, which is
the database's, too.
"""

import gc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import dagster as dg

from orchestration.log_client.protocol import LogClient
from orchestration.resources import DatabaseResource, LogServiceResource
from orchestration.settings import client_settings, load_settings, process_environment
from orchestration.sources import sql_source
from orchestration.topics.spec import TopicSpec

PEOPLE = TopicSpec(name="people", configs={"cleanup.policy": "compact"})
OURS = ("log_service", "orchestration")


def people_of(name: str, table: str) -> dg.AssetsDefinition:
    return sql_source(name, topic=PEOPLE, table=table, key="id", compare_every_s=0)


@dg.asset(deps=[dg.AssetKey(["sources", "people"])])
def probe(
    context: dg.AssetExecutionContext, log_service: LogServiceResource, database: DatabaseResource
) -> None:
    """Looks at what is alive while a run has both connections open."""
    planted = process_environment()["TIDELOG_SASL_PASSWORD"]
    with (
        log_service.open() as log,
        log.open_sender("probe"),
        database.open() as engine,
        engine.connect(),
    ):
        settings, client = load_settings(), client_settings()
        assert planted in settings.sql_url.reveal()
        assert client["sasl_username"] == "shop"
        context.log.info("%s %s %s", settings, log, database)
        for told in (*showing(planted), *arguments_with(planted)):
            print(f"shown by {told}", flush=True)  # noqa: T201 - what the test reads
    print("looked around", flush=True)  # noqa: T201 - as above


@dg.asset
def fails(log_service: LogServiceResource, database: DatabaseResource) -> None:
    """Fails with both connections open."""

    def append_to(log: LogClient, where: DatabaseResource) -> None:
        raise RuntimeError(f"no way from {log} to {where}")

    with log_service.open() as log, database.open():
        append_to(log, database)


def showing(planted: str) -> Iterator[str]:
    for each in gc.get_objects():
        if str(type(each).__module__).startswith(OURS) and planted in repr(each):
            yield f"an object of {type(each)}"


def arguments_with(planted: str) -> Iterator[str]:
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(OSError):
                if planted.encode() in (process / "cmdline").read_bytes():
                    yield f"the arguments of process {process.name}"


def main() -> None:
    assets = [people_of("people", "people"), people_of("nobody", "nobody"), probe, fails]
    resources = {
        "log_service": LogServiceResource(),
        "database": DatabaseResource(url=dg.EnvVar("TIDELOG_SQL_URL")),
    }
    with dg.DagsterInstance.get() as instance:
        dg.materialize(assets, resources=resources, instance=instance, raise_on_error=False)


if __name__ == "__main__":
    main()
