"""Judges a run of several registries by what clients were told and by the records of the topic.

No id belongs to two schemas, also not after the first was removed. Nothing that was acknowledged is
lost. No instance writes once another one took over. An instance that starts after compaction knows
what all records together said.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from log_service.http.schema_registry.log.reader import LogRecord
from log_service.http.schema_registry.state import RegistryState
from log_service.http.schema_registry.state_keeper import StateKeeper
from log_service.http.schema_registry.subjects import context_of

NOOP_KEY = b'{"keytype":"NOOP","magic":0}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A schema as a registry acknowledged it to a client."""

    subject: str
    version: int
    id: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A batch that an instance knows to be in the log, by its last offset."""

    offset: int
    writer: str


@dataclass(slots=True)
class RegistryHistory:
    """The responses to clients, and the records that instances wrote."""

    registered: list[Registered] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)


def violations(
    history: RegistryHistory,
    records: Sequence[LogRecord],
    whole: StateKeeper,
    found: StateKeeper,
) -> list[str]:
    """Return the broken promises of a run as sentences.

    ``records`` are all that were ever written, and ``whole`` has the state that they build.
    ``found`` has the state of an instance that starts at the end.
    """
    return [
        *ids_given_twice(history.registered, records),
        *lost_schemas(history.registered, found.state),
        *superseded_writes(history.written, records),
        *forgotten(whole, found),
    ]


def ids_given_twice(registered: Sequence[Registered], records: Sequence[LogRecord]) -> list[str]:
    """Return each id that two schemas of a context have, in responses or in records."""
    texts: dict[tuple[str, int], set[str]] = {}
    for each in [*registered, *_schemas(records)]:
        texts.setdefault((context_of(each.subject), each.id), set()).add(each.text)
    return [
        f"id {schema_id} of context {context} was given to {len(given)} schemas: {sorted(given)}"
        for (context, schema_id), given in texts.items()
        if len(given) > 1
    ]


def lost_schemas(registered: Sequence[Registered], state: RegistryState) -> list[str]:
    """Return each acknowledged schema of a lasting subject that is not there as it was told."""
    lost = []
    for each in registered:
        if each.subject.startswith("gone"):
            continue
        version = state.version(each.subject, each.version)
        if version is None or (version.schema_id, version.content.text) != (each.id, each.text):
            lost.append(f"{each} was acknowledged, and the topic has {version}")
    return lost


def superseded_writes(written: Sequence[Written], records: Sequence[LogRecord]) -> list[str]:
    """Return each write of an instance behind the take-over of another one."""
    take_overs = list(_take_overs(records))
    late = []
    for each in written:
        before = [writer for offset, writer in take_overs if offset < each.offset]
        if not before or before[-1] != each.writer:
            writer = before[-1] if before else None
            late.append(f"{each.writer} wrote offset {each.offset}, and the writer was {writer}")
    return late


def forgotten(whole: StateKeeper, found: StateKeeper) -> list[str]:
    """Return how a new instance's state differs from that of all records."""
    before, state = whole.state, found.state
    differences = []
    if whole.unreadable_count or found.unreadable_count:
        counts = f"{whole.unreadable_count} records, {found.unreadable_count} after compaction"
        differences.append(f"an instance cannot read {counts}")
    for subject in sorted({*before.subjects, *state.subjects}):
        expected = [(each.version, each.schema_id) for each in before.versions(subject)]
        actual = [(each.version, each.schema_id) for each in state.versions(subject)]
        if expected != actual:
            differences.append(f"{subject} has versions {actual} after compaction, not {expected}")
    for context, highest in before.highest_ids.items():
        if state.highest_ids.get(context, 0) < highest:
            known = state.highest_ids.get(context, 0)
            text = f"a new instance would give id {known + 1} of context {context} again"
            differences.append(f"{text}: {highest} was given")
    return differences


def _schemas(records: Sequence[LogRecord]) -> Iterator[Registered]:
    for each in records:
        key = json.loads(each.key or b"{}")
        if key.get("keytype") == "SCHEMA" and each.value is not None:
            value = json.loads(each.value)
            yield Registered(
                subject=value["subject"],
                version=value["version"],
                id=value["id"],
                text=value["schema"],
            )


def _take_overs(records: Sequence[LogRecord]) -> Iterator[tuple[int, str]]:
    for each in records:
        if each.key == NOOP_KEY and each.value is not None:
            writer = json.loads(each.value).get("writer")
            if writer is not None:
                yield each.offset, writer
