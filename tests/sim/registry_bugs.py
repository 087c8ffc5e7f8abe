"""Bugs that are planted in the schema registry to prove that its simulation notices them."""

from collections.abc import Iterable, Mapping
from typing import Any

from log_service.http.schema_registry.decisions import deletion
from log_service.http.schema_registry.log import writer
from log_service.http.schema_registry.log.reader import SchemasReader
from log_service.http.schema_registry.records import RegistryRecord, noop_record
from log_service.records.builder import build_batch
from tests.sim import registries
from tests.sim.node_bugs import Bug


def _without_epoch(records: Iterable[Any], **_identity: int) -> bytes:
    """Return a batch of no producer, which no broker refuses."""
    return build_batch(records)


def _noop_without_ids(_highest_ids: Mapping[str, int]) -> RegistryRecord:
    return noop_record({})


async def _do_not_wait(_reader: SchemasReader, _offset: int, _timeout_ms: int) -> None:
    """Take the state as it is, although records are missing in it."""


BUGS = (
    Bug(
        name="brokers do not fence a superseded writer",
        replacements=((writer, "build_batch", _without_epoch),),
        shown_by=(0,),
    ),
    Bug(
        name="a first record does not carry the highest ids",
        replacements=(
            (registries, "noop_record", _noop_without_ids),
            (deletion, "noop_record", _noop_without_ids),
        ),
        shown_by=(1,),
    ),
    Bug(
        name="a writer decides before it has read to the end",
        replacements=((SchemasReader, "read_to", _do_not_wait),),
        shown_by=(1,),
    ),
)
