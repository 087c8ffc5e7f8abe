"""The pages of a console over a real cluster, and the changes that people make with them."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from log_service.client import (
    AcknowledgeType,
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    BlockingShareConsumer,
    ConfigResource,
    NewTopic,
    ShareRecord,
)
from tests.helpers.console_process import ConsoleProcess
from tests.helpers.registry_process import RegistryProcess
from tests.integration.http.console_pages import Person, check_command, command_lines, readable

MARKUP = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def console(
    bootstrap: str, registry: RegistryProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    """A console that the tests of this module share. Tests name their topics apart."""
    directory = tmp_path_factory.mktemp("console")
    properties = {"schema.registry.url": registry.url}
    with ConsoleProcess(directory, bootstrap, None, **properties) as running:
        yield running


@pytest.fixture
def person(console: ConsoleProcess) -> Iterator[Person]:
    """A person who has opened the first page."""
    with Person(console.url) as found:
        found.open("/create-topic")
        yield found


@pytest.fixture
def admin(bootstrap: str) -> Iterator[BlockingAdmin]:
    """An admin client of the same cluster."""
    with BlockingAdmin(bootstrap) as found:
        yield found


def test_every_page_opens_and_its_command_lines_exist(
    person: Person, admin: BlockingAdmin, name: str
) -> None:
    admin.create_topics([NewTopic(name=name, partition_count=2)])
    paths = (
        "/", "/cluster", "/flow", "/topics", "/create-topic", "/groups", "/schemas", "/transactions",
        "/transactions/hanging", "/security", "/security/acls", "/security/users",
        "/security/quotas", f"/topics/{name}", f"/topics/{name}/configs",
        f"/topics/{name}/records", f"/topics/{name}/records?from=earliest&partition=1",
        f"/topics/{name}/records?from=offset&offset=0", f"/topics/{name}/records?from=time&time=0",
        f"/topics/{name}/live", f"/topics/{name}/produce",
    )  # fmt: skip
    for path in paths:
        lines = command_lines(person.open(path))
        assert lines, path
        for line in lines:
            check_command(line)


def test_a_topic_is_created_changed_and_deleted(
    person: Person, admin: BlockingAdmin, name: str
) -> None:
    form: dict[str, Any] = {"name": name, "partitions": 2, "configs": "retention.ms=1000\n"}
    preview = person.send("/create-topic", **form)
    assert "Nothing has changed yet" in preview
    assert name not in {each.name for each in admin.list_topics()}
    assert "The topic was created" in person.confirm(preview)
    check_command(command_lines(preview)[0])

    preview = person.send(f"/topics/{name}/configs", configs="retention.ms=2000")
    assert "1000 2000" in readable(preview)
    assert "The configs were changed" in person.confirm(preview)
    preview = person.send(f"/topics/{name}/configs", reset="retention.ms")
    check_command(command_lines(preview)[0])
    shown = readable(person.confirm(preview))
    assert "604800000" in shown

    preview = person.send(f"/topics/{name}/partitions", partitions=5)
    check_command(command_lines(preview)[0])
    person.confirm(preview)
    assert admin.describe_topics([name])[name].partition_count == 5
    person.send(f"/topics/{name}/partitions", 400, partitions=3)

    preview = person.send(f"/topics/{name}/delete")
    person.confirm(preview, 400, confirmation="another")
    assert "The topic was deleted" in person.confirm(preview, confirmation=name)
    person.open(f"/topics/{name}", 404)


def test_what_the_cluster_refuses_is_told_before_the_change(person: Person, name: str) -> None:
    for form in ({"name": "a/b"}, {"name": name, "configs": "retention.ms=never"},
                 {"name": name, "replicas": 9}, {"name": name, "configs": "x"}):  # fmt: skip
        page = person.send("/create-topic", 400, **form)
        assert 'role="alert"' in page


def test_records_are_found_by_filter_and_never_become_markup(
    person: Person, bootstrap: str, topic: str
) -> None:
    with BlockingProducer(bootstrap) as producer:
        for number in range(30):
            value = (
                f'{{"id": {number}, "customer": {{"country": "{"de" if number % 3 else "fr"}"}}}}'
            )
            producer.send(topic, value, f"k{number % 5}", headers=[("trace", b"t%d" % number)])
        producer.send(topic, None, "k0")
        producer.send(topic, MARKUP, MARKUP, headers=[(MARKUP, MARKUP.encode())])
        producer.send(topic, bytes(range(256)))
        producer.flush()
    page = person.open(f"/topics/{topic}/records")
    assert MARKUP not in page
    assert "&lt;script&gt;" in page
    assert "tombstone" in page
    path = f"/topics/{topic}/records"
    found = person.open(path, filter="value.customer.country = fr and key = k0")
    assert found.count("<tr>") == 1 + 2
    assert '"id": 15' in readable(found)
    assert "1 record shown" in person.open(path, filter="header.trace = t7")
    assert "1 record shown" in person.open(path, offset=5, limit=1)
    person.open(path, 400, filter="nonsense")
    assert "7 records shown" in person.open(path, key="k0")
    assert "1 record shown" in person.open(path, key=MARKUP)
    assert "no records like that" in person.open(path, key="k")
    person.open(path, 404, partition=7)
    lines = person.client.get(f"{path}.ndjson", params={"from": "earliest"}).text.splitlines()
    assert len(lines) == 33


def test_a_key_leads_to_its_partition(
    person: Person, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(7)
    keys = ("a", "1.50", "[1,2]", '"quoted"')
    with BlockingProducer(bootstrap) as producer:
        for key in keys:
            producer.send(topic, "1", key)
        producer.flush()
    path = f"/topics/{topic}/records"
    for key in keys:
        page = person.open(path, key=key)
        assert "1 record shown" in page
        assert re.search(r'name="partition" min="0" value="[0-6]"', page)
        lines = person.client.get(f"{path}.ndjson", params={"key": key}).text.splitlines()
        assert len(lines) == 1
    assert "no records like that" in person.open(path, key="a", partition=0, filter="offset = 9")


def test_records_are_decoded_by_the_registry(
    person: Person, bootstrap: str, topic: str, api: httpx.Client
) -> None:
    proto = 'syntax = "proto3"; message M { string name = 1; }'
    avro = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}'
    schemas = ((proto, "PROTOBUF", b"\0\x0a\x03ann"), (avro, "AVRO", b"\x06bob"))
    with BlockingProducer(bootstrap) as producer:
        for text, kind, payload in schemas:
            body = {"schema": text, "schemaType": kind}
            found = api.post(f"/subjects/{topic}-{kind}/versions", json=body).json()
            producer.send(topic, b"\0" + int(found["id"]).to_bytes(4, "big") + payload)
        producer.send(topic, b"\0\xff\xff\xff\xffno such schema")
        producer.flush()
    page = readable(person.open(f"/topics/{topic}/records"))
    assert '"name": "ann"' in page
    assert '"a": "bob"' in page
    assert "not decoded" in page
    path = f"/topics/{topic}/records"
    assert "1 record shown" in person.open(path, filter="value.a = bob")


def test_a_record_is_produced_and_shown(person: Person, topic: str) -> None:
    page = person.send(
        f"/topics/{topic}/produce", key="k", value='{"a": 1}', value_format="json", headers="h=1"
    )
    assert "The record was produced" in page
    assert "Header h 1" in readable(page)
    page = person.send(f"/topics/{topic}/produce", key="k", value_format="null")
    assert "tombstone" in page
    person.send(f"/topics/{topic}/produce", 400, value="{", value_format="json")
    person.send(f"/topics/{topic}/produce", 400, value="!", value_format="base64")


def test_a_topic_is_followed_live(person: Person, bootstrap: str, topic: str) -> None:
    path = f"/topics/{topic}/tail"
    with person.client.stream("GET", path) as stream, BlockingProducer(bootstrap) as producer:
        lines = stream.iter_lines()
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in lines:
            if "Waiting for records" in line:
                producer.send(topic, f"live {MARKUP}", "k")
                producer.flush()
            if "live" in line and "data:" in line:
                assert MARKUP not in line
                break


def test_a_group_is_shown_and_reset(
    person: Person, bootstrap: str, topic: str, name: str, admin: BlockingAdmin
) -> None:
    group = f"{name} <b>"
    with BlockingProducer(bootstrap) as producer:
        for number in range(10):
            producer.send(topic, str(number))
        producer.flush()
    settings = {"group_id": group, "auto_offset_reset": "earliest"}
    with BlockingConsumer(bootstrap, **settings) as consumer:
        consumer.subscribe([topic])
        seen = 0
        while seen < 10:
            seen += len(consumer.poll(timeout_ms=1_000))
        consumer.commit()
        page = person.open("/group", id=group)
        assert "<b>" not in page
        assert "Stable" in page
        person.send("/group/reset", 409, id=group, to="earliest")
    preview = person.send("/group/reset", id=group, to="shift", shift=-4)
    check_command(command_lines(preview)[0])
    assert "10 6" in readable(preview)
    assert "The offsets were reset" in person.confirm(preview)
    (found,) = admin.list_group_offsets(group).values()
    assert found.offset == 6
    preview = person.send("/group/delete", id=group)
    person.confirm(preview, confirmation=group)
    person.open("/group", 404, id=group)


def test_a_queue_shows_who_holds_which_record(
    person: Person, bootstrap: str, topic: str, name: str, admin: BlockingAdmin
) -> None:
    group = f"{name} <b>"
    earliest = {"share.auto.offset.reset": "earliest"}
    admin.alter_configs({ConfigResource.group(group): earliest})
    with BlockingProducer(bootstrap) as producer:
        for number in range(10):
            producer.send(topic, str(number))
            producer.flush()
    settings: dict[str, Any] = {"acknowledgement_mode": "explicit", "client_id": "worker <b>"}
    with BlockingShareConsumer(bootstrap, group_id=group, **settings) as consumer:
        consumer.subscribe([topic])
        records: list[ShareRecord] = []
        while not records:
            records = consumer.poll(timeout_ms=1_000)
        page = person.open("/group", id=group)
        assert "<b>" not in page
        shown = readable(page)
        assert f"{topic}-0, {records[0].offset}" in shown
        assert "held by a member 1 worker <b> at" in shown
        assert re.search(r"[0-9.]+ s ", shown.partition("held by a member")[2])
        for each in records:
            consumer.acknowledge(each, AcknowledgeType.RELEASE)
        consumer.commit()
        assert "waits for another delivery 1" in readable(person.open("/group", id=group))


def test_a_transaction_leads_to_the_records_of_its_producer(
    person: Person, bootstrap: str, topic: str, name: str
) -> None:
    settings = {"transactional_id": f"{name} <b>", "client_id": "writer"}
    with BlockingProducer(bootstrap, **settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, "1")
        producer.flush()
        page = person.open("/transaction", id=f"{name} <b>")
        assert "<b>" not in page
        assert f"{topic} -0 0 0 " in readable(page)
        assert f"/topics/{topic}/records?partition=0&amp;from=offset&amp;offset=0" in page
        producer.commit_transaction()


def test_a_schema_is_checked_registered_and_compared(person: Person, name: str) -> None:
    subject = f"{name}-value"
    first = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
    second = first.replace("}]}", '}, {"name": "b", "type": "int", "default": 0}]}')
    broken = first.replace("int", "string")
    for text in (first, second):
        preview = person.send("/schema/register", subject=subject, type="AVRO", text=text)
        assert "The schema was registered" in person.confirm(preview)
    page = person.open("/schema", subject=subject)
    assert "Changes since version 1" in page
    assert "<ins>+ " in page
    for line in command_lines(page):
        check_command(line)
    assert "it is refused" in person.send(
        "/schema/register", subject=subject, type="AVRO", text=broken
    )
    preview = person.send("/schema/level", subject=subject, level="FULL")
    check_command(command_lines(preview)[0])
    assert "FULL" in person.confirm(preview)
    preview = person.send("/schema/delete", subject=subject, version=1)
    check_command(command_lines(preview)[0])
    person.confirm(preview)
    person.open("/schema", 404, subject=subject, version=1)


def test_users_and_quotas_are_changed(person: Person, name: str) -> None:
    user = f"{name}-user"
    person.open("/security/users")
    secret: dict[str, Any] = {"password": "long enough", "again": "long enough"}
    person.send("/security/users", 400, name=user, password="short", again="short")
    person.send("/security/users", 400, name=user, password="long enough", again="other one")
    page = person.send("/security/users", name=user, **secret)
    assert user in page
    assert "long enough" not in page
    preview = person.send("/security/users/remove", name=user)
    check_command(command_lines(preview)[0])
    assert user not in person.confirm(preview)
    preview = person.send("/security/quotas", user=user, key="producer_byte_rate", value=1000)
    check_command(command_lines(preview)[0])
    assert f"user {user} producer_byte_rate 1,000" in readable(person.confirm(preview))
    preview = person.send("/security/quotas", user=user, key="producer_byte_rate")
    check_command(command_lines(preview)[0])
    assert user not in person.confirm(preview)


def test_another_host_name_and_another_page_are_refused(console: ConsoleProcess) -> None:
    """DNS rebinding and request forgery: the first by its Host, the second by its origin."""
    page = httpx.get(console.url, headers={"host": "evil.example"})
    assert page.status_code == 421
    assert "content-security-policy" in page.headers
    forged = httpx.post(
        f"{console.url}/create-topic",
        data={"name": "forged"},
        headers={"origin": "http://evil.example", "sec-fetch-site": "cross-site"},
    )
    assert forged.status_code == 403
