"""Several registries over one topic: one writes, the others forward, and no kill loses a schema."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from log_service.client import BlockingAdmin
from tests.helpers.registry_process import RegistryProcess

pytestmark = pytest.mark.timeout(240)

NAMES = iter(range(1_000))


def text_of(name: str) -> str:
    """Return the text of an Avro record."""
    return json.dumps({"type": "record", "name": name, "fields": []}, separators=(",", ":"))


def post(url: str, subject: str, name: str, **headers: str) -> httpx.Response:
    """Register a schema."""
    body = {"schema": text_of(name)}
    return httpx.post(f"{url}/subjects/{subject}/versions", json=body, headers=headers, timeout=60)


def until(is_so: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.05)


def registered_somewhere(instances: list[RegistryProcess], subject: str, name: str) -> int:
    """Register a schema at whichever instance takes it, and return its id."""
    deadline = time.monotonic() + 60
    while True:
        for each in instances:
            try:
                response = post(each.url, subject, name)
            except httpx.HTTPError:
                continue
            if response.status_code == 200:
                return int(response.json()["id"])
        assert time.monotonic() < deadline, "no instance takes the schema"


@pytest.fixture
def two(bootstrap: str, tmp_path: Path) -> Iterator[list[RegistryProcess]]:
    """Two instances whose topic and group are theirs alone."""
    number = next(NAMES)
    names = {
        "kafkastore.topic": f"_schemas_of_two_{tmp_path.name}_{number}",
        "schema.registry.group.id": f"two-{tmp_path.name}-{number}",
        "session.timeout.ms": "1000",
        "schema.compatibility.level": "NONE",
    }
    with (
        RegistryProcess(tmp_path, bootstrap, **names) as one,
        RegistryProcess(tmp_path, bootstrap, **names) as other,
    ):
        yield [one, other]


def is_writer(instance: RegistryProcess) -> bool:
    """Return whether an instance writes itself: it takes a forwarded change."""
    headers = {"X-Forward": "true"}
    response = httpx.delete(f"{instance.url}/subjects/none", headers=headers, timeout=60)
    return response.status_code == 404


def writer_and_other(two: list[RegistryProcess]) -> tuple[RegistryProcess, RegistryProcess]:
    """Return the instance that writes, and the one that forwards."""
    until(lambda: any(map(is_writer, two)), "an election")
    one, other = two
    return (one, other) if is_writer(one) else (other, one)


def test_either_instance_takes_changes_and_both_show_them(two: list[RegistryProcess]) -> None:
    """The one that does not write forwards, and does so once only."""
    writer, other = writer_and_other(two)
    made = post(other.url, "a", "Forwarded").json()
    assert post(writer.url, "a", "Forwarded").json()["id"] == made["id"]
    for each in two:
        until(
            lambda url=each.url: httpx.get(f"{url}/schemas/ids/{made['id']}").status_code == 200,  # type: ignore[misc]
            "the schema at both",
        )
    refused = post(other.url, "a", "New", **{"X-Forward": "true"})
    assert (refused.status_code, refused.json()["error_code"]) == (500, 50004)


def test_a_refusal_of_the_writer_reaches_the_client_as_it_is(two: list[RegistryProcess]) -> None:
    """Status, code and text are the writer's."""
    _, other = writer_and_other(two)
    refused = httpx.post(
        f"{other.url}/subjects/a/versions", json={"schema": '{"type":"x"}'}, timeout=60
    )
    assert (refused.status_code, refused.json()["error_code"]) == (422, 42201)


def test_the_other_instance_writes_once_the_writer_is_gone(two: list[RegistryProcess]) -> None:
    """A killed writer's session ends, and the next id goes on."""
    writer, other = writer_and_other(two)
    first = post(writer.url, "a", "Before").json()["id"]
    writer.kill()
    until(lambda: is_writer(other), "the take-over")
    assert post(other.url, "a", "After").json()["id"] == first + 1


def test_the_other_instance_writes_at_once_when_the_writer_stops(
    two: list[RegistryProcess],
) -> None:
    """It leaves the group in order, so that nobody waits for the end of its session."""
    writer, other = writer_and_other(two)
    first = post(writer.url, "a", "Before").json()["id"]
    writer.stop()
    assert post(other.url, "a", "After").json()["id"] == first + 1
    assert "leaving group" not in writer.log.read_text()


def test_a_paused_writer_cannot_write_any_more(two: list[RegistryProcess]) -> None:
    """It was superseded while it slept. Its change is refused, or forwarded to the new writer."""
    writer, other = writer_and_other(two)
    post(writer.url, "a", "First")
    writer.send(signal.SIGSTOP)
    until(lambda: is_writer(other), "the take-over")
    made = [post(other.url, "a", f"During{index}").json()["id"] for index in range(3)]
    writer.send(signal.SIGCONT)
    late = post(writer.url, "b", "Late")
    ids = {*made, late.json()["id"]} if late.status_code == 200 else set(made)
    assert len(ids) == len(made) + (late.status_code == 200)


def test_kills_lose_no_schema_and_give_no_id_twice(two: list[RegistryProcess]) -> None:
    """The instances are killed in turn while a client registers at whichever responds."""
    acknowledged: dict[str, int] = {}
    for index in range(16):
        if index % 3 == 2:
            two[index // 3 % 2].kill()
        acknowledged[f"Killed{index}"] = registered_somewhere(
            two, f"s{index % 3}", f"Killed{index}"
        )
        if index % 3 == 2:
            two[index // 3 % 2].start()
    assert len(set(acknowledged.values())) == len(acknowledged)
    for each in two:
        for name, schema_id in acknowledged.items():
            found = httpx.get(f"{each.url}/schemas/ids/{schema_id}", timeout=60)
            assert found.json()["schema"] == text_of(name)


def test_records_that_are_no_records_are_skipped_by_offset(
    two: list[RegistryProcess], bootstrap: str
) -> None:
    """Whatever somebody else writes into the topic, the registry serves the rest."""
    writer, _ = writer_and_other(two)
    made = post(writer.url, "a", "Good").json()["id"]
    topic = next(
        iter(
            line.split("=")[1] for line in writer.arguments if line.startswith("kafkastore.topic=")
        )
    )
    foreign = [
        (b"no json", b"x"),
        (b'{"keytype":"SCHEMA","subject":"a","version":9,"magic":1}', b"{"),
    ]
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in foreign:
        producer.produce(topic, key=key, value=value)
        producer.flush(30)
    after = post(writer.url, "a", "AlsoGood").json()["id"]
    for each in two:
        assert httpx.get(f"{each.url}/schemas/ids/{made}", timeout=60).status_code == 200
    assert after == made + 1
    until(lambda: "is left out" in writer.log.read_text(), "the warning")
    with BlockingAdmin(bootstrap) as admin:
        assert admin.describe_topics([topic])[topic].partition_count == 1
