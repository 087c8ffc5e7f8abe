"""No request holds the event loop for long, however much the registry holds.

Calls of functions between two checkpoints of the event loop are counted. Other threads are not.
"""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import trio

from log_service.http.schema_registry.log.reader import LogRecord
from log_service.http.schema_registry.records import (
    RegistryRecord,
    StoredSchema,
    context_record,
    schema_record,
    settings_record,
)
from log_service.http.schema_registry.values import (
    CompatibilityLevel,
    Reference,
    SchemaContent,
    Settings,
)
from log_service.http.schema_registry.workers import WORKER_COUNT
from tests.helpers.watchdog import MOST_CALLS, Watchdog
from tests.unit.http.schema_registry.builders import stored
from tests.unit.http.schema_registry.served import Served, tell

SUBJECT_COUNT, SHARED_COUNT, CONTEXT_COUNT, VERSION_COUNT, REFERRER_COUNT = (
    12_000,
    8_000,
    3_000,
    300,
    4_000,
)
SHARED_ID, PART_ID = 1, 2
REFERENCE = Reference(name="Part", subject="part", version=1)


def record_text(number: int, field_count: int = 3) -> str:
    """Return an Avro record that reads what the ones before it wrote."""
    fields = [
        {"name": f"f{index}", "type": ["null", "string"], "default": None}
        for index in range(field_count)
    ]
    return json.dumps(
        {"type": "record", "name": "R", "doc": str(number), "fields": fields}, separators=(",", ":")
    )


def everything() -> Iterator[RegistryRecord | StoredSchema]:
    """Yield the records of a large registry."""
    part = json.dumps({"type": "record", "name": "Part", "fields": []}, separators=(",", ":"))
    yield stored("part", 1, PART_ID, part)
    for number in range(SUBJECT_COUNT):
        yield stored(f"own-{number}", 1, 100 + number, record_text(number))
    for number in range(SHARED_COUNT):
        yield stored(f"shared-{number}", 1, SHARED_ID)
    for number in range(REFERRER_COUNT):
        text = json.dumps(
            ["null", "Part", {"type": "array", "items": "int", "n": number}], separators=(",", ":")
        )
        yield stored(
            f"user-{number}",
            1,
            50_000 + number,
            text,
            references=(REFERENCE,),
            is_deleted=number % 2 == 1,
        )
    for number in range(CONTEXT_COUNT):
        yield context_record(f".c{number}")
        yield stored(f":.c{number}:inside", 1, 1)
        yield settings_record(f"alias-{number}", Settings(alias=f"own-{number}"))
    for number in range(VERSION_COUNT):
        yield stored("many", 1 + number, 60_000 + number, record_text(number, 20))
    yield settings_record("many", Settings(compatibility_level=CompatibilityLevel.FULL_TRANSITIVE))
    yield stored("long", 1, 70_000, record_text(0, 3_000))


@cache
def lines() -> list[tuple[bytes, bytes | None]]:
    """Return the bytes of these records."""
    records = (
        schema_record(each) if isinstance(each, StoredSchema) else each for each in everything()
    )
    return [(each.key.encode(), each.value) for each in records]


@pytest.fixture(scope="module")
def large() -> Served:
    """A large registry, which the requests of this module do not change."""
    served = Served(
        access=lambda _request, _operation, _resource, name: not name.startswith("hidden")
    )
    for offset, (key, value) in enumerate(lines()):
        served.keeper.apply(LogRecord(offset=offset, timestamp_ms=1, key=key, value=value))
    assert served.keeper.unreadable_count == 0
    return served


def longest_turn(served: Served, method: str, target: str, body: Any = None) -> tuple[int, int]:
    """Return the calls of the longest turn that a request takes, and its status."""
    found: list[tuple[int, int]] = []

    async def story(served: Served) -> None:
        with Watchdog() as watchdog:
            response = await served.respond(method, target, body)
        found.append((watchdog.most, response.status))

    tell(story, served)
    return found[0]


@pytest.mark.parametrize(
    "target",
    [
        "/subjects",
        "/subjects?deleted=true",
        "/subjects?deletedOnly=true",
        "/subjects?subjectPrefix=:*:inside",
        "/subjects?subjectPrefix=own-",
        "/subjects?offset=10000&limit=1",
        "/contexts/.c7/subjects",
        "/contexts",
        "/contexts?contextPrefix=.c2",
        "/schemas",
        "/schemas?latestOnly=true&aliases=true",
        "/schemas?ruleType=CEL",
        "/schemas?format=resolved&subjectPrefix=user-&limit=50",
        f"/schemas/ids/{SHARED_ID}",
        f"/schemas/ids/{SHARED_ID}/subjects",
        f"/schemas/ids/{SHARED_ID}/versions",
        f"/schemas/ids/{SHARED_ID}?subject=inside",
        "/schemas/ids/70000?format=resolved",
        "/schemas/ids/70000/schema?format=resolved",
        "/subjects/long/versions/1?format=resolved",
        "/subjects/long/versions/1/schema?format=resolved",
        "/subjects/none/versions",
        "/subjects/inside/versions/1",
        "/subjects/many/versions",
        "/subjects/many/versions/latest",
        "/subjects/part/versions/1/referencedby?deleted=true",
        "/config/many",
        "/mode/many?defaultToGlobal=true",
    ],
)
def test_no_reading_request_holds_the_loop(large: Served, target: str) -> None:
    """Lists are made in turns, and other forms of a schema in another thread."""
    most, status = longest_turn(large, "GET", target)
    assert status in {200, 404}
    assert most <= MOST_CALLS


def test_unknown_and_missing_subjects_take_no_search(large: Served) -> None:
    """A miss looks at its own name, and not at every subject."""
    for target in (
        "/subjects/none/versions/1",
        "/subjects/none",
        "/schemas/ids/99999",
        "/schemas/guids/none",
    ):
        method = "POST" if target == "/subjects/none" else "GET"
        most, status = longest_turn(
            large, method, target, {"schema": '"int"'} if method == "POST" else None
        )
        assert status == 404
        assert most <= MOST_CALLS // 20


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("/subjects/many/versions", record_text(10_000, 25)),
        ("/subjects/many", record_text(10_000, 25)),
        ("/compatibility/subjects/many/versions", '{"type":"record","name":"R","fields":[]}'),
        ("/compatibility/subjects/many/versions?verbose=true", '"string"'),
        ("/compatibility/subjects/long/versions/1", record_text(1, 1)),
        ("/subjects/long?normalize=true", record_text(0, 3_000)),
    ],
)
def test_no_schema_holds_the_loop(large: Served, target: str, text: str) -> None:
    """A short text may be compared with hundreds of long ones."""
    most, status = longest_turn(large, "POST", target, {"schema": text})
    assert status in {200, 404, 409}
    assert most <= MOST_CALLS


def test_a_known_text_is_found_without_another_thread(large: Served) -> None:
    """Producers look their schemas up as the registry wrote them."""

    async def story(served: Served) -> None:
        body = {"schema": record_text(5)}
        hold, held = trio.Event(), trio.Semaphore(0)

        async def occupy() -> None:
            async with served.registry.workers.turn():
                held.release()
                await hold.wait()

        async with trio.open_nursery() as nursery:
            for _ in range(WORKER_COUNT):
                nursery.start_soon(occupy)
                await held.acquire()
            with trio.fail_after(20):
                assert (await served.ask("POST", "/subjects/own-5", body))[0] == 200
                assert (await served.ask("POST", "/subjects/own-5/versions", body))[1]["id"] == 105
            hold.set()

    tell(story, large)


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("DELETE", "/mode?recursive=true", None),
        ("PUT", "/mode?force=true", {"mode": "IMPORT"}),
        ("DELETE", "/subjects/many", None),
        ("PUT", "/config", {"compatibility": "FULL"}),
        ("DELETE", "/contexts/.none", None),
    ],
)
def test_no_change_holds_the_loop(method: str, target: str, body: Any) -> None:
    """Changes are decided in another thread."""
    served = Served()
    for offset, (key, value) in enumerate(lines()[:3_000] + lines()[-VERSION_COUNT - 3 :]):
        served.keeper.apply(LogRecord(offset=offset, timestamp_ms=1, key=key, value=value))
    most, _ = longest_turn(served, method, target, body)
    assert most <= MOST_CALLS


def test_records_are_taken_in_turns_while_a_schema_is_examined() -> None:
    """They wait for the computation, and it for none of those that come after."""

    async def story(served: Served) -> None:
        content = SchemaContent(text='"int"')
        started, go_on = trio.Event(), trio.Event()

        def compute() -> int:
            trio.from_thread.run_sync(started.set)
            trio.from_thread.run(go_on.wait)
            return served.registry.state.version_count

        async with trio.open_nursery() as nursery:
            counts: list[int] = []

            async def think() -> None:
                counts.append(await served.registry.think(compute))

            nursery.start_soon(think)
            await started.wait()
            served.have(StoredSchema(subject="a", version=1, schema_id=1, content=content))
            assert served.registry.state.version_count == 0
            nursery.start_soon(served.keeper.settled)
            go_on.set()
        assert counts == [0]
        assert served.registry.state.version_count == 1

    tell(story)
