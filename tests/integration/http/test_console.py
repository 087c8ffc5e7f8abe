"""The pages of a console over a real cluster, and the changes that people make with them."""

import html
import json
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
    KafkaError,
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
        "/", "/cluster", "/flow", "/topics", "/create-topic", "/groups", "/schemas",
        "/schema/register", "/transactions", "/transactions/hanging", "/security", "/security/acls", "/security/users",
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
    assert "sorted by offset" in person.open(path, partition=0)
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
        assert re.search(r"Only partition [0-6] was read", page)
        assert 'name="partition" min="0" value=""' in page, "the next key may be in another one"
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
        refused = person.send("/group/reset", 409, id=group, to="earliest")
        assert "has members: stop them first" in readable(refused)
        assert "Kind classic group" in readable(refused), "it is the page of the group"
    preview = person.send("/group/reset", id=group, to="shift", shift=-4)
    check_command(command_lines(preview)[0])
    assert "10 6" in readable(preview)
    assert "The offsets were reset" in person.confirm(preview)
    (found,) = admin.list_group_offsets(group).values()
    assert found.offset == 6
    listed = readable(person.part("/groups", q=name, details=1))
    assert f"{group} Empty classic group 4 consumer" in listed
    refused = person.send("/group/reset", 400, id=group, to="offset", offset="-7", topic=topic)
    assert "offset is &#39;-7&#39;" in refused
    assert 'value="-7"' in refused
    assert f"<option selected>{topic}" in refused
    refused = person.send("/group/delete", 400, id=group, confirmed=1, confirmation="another")
    assert "type the id of the group" in refused
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


def test_what_a_member_of_a_queue_holds_is_released(
    person: Person, bootstrap: str, topic: str, name: str, admin: BlockingAdmin
) -> None:
    admin.alter_configs({ConfigResource.group(name): {"share.auto.offset.reset": "earliest"}})
    with BlockingProducer(bootstrap) as producer:
        producer.send(topic, "1")
    settings: dict[str, Any] = {"group_id": name, "acknowledgement_mode": "explicit"}
    with (
        BlockingShareConsumer(bootstrap, **settings) as hanging,
        BlockingShareConsumer(bootstrap, **settings) as other,
    ):
        hanging.subscribe([topic])
        held: list[ShareRecord] = []
        while not held:
            held = hanging.poll(timeout_ms=1_000)
        (member,) = admin.describe_share_groups([name])[name].members
        other.subscribe([topic])
        preview = person.send("/group/release", id=name, member=member.member_id)
        assert "1 held" in readable(preview)
        (line,) = command_lines(preview)
        check_command(line)
        assert not other.poll(timeout_ms=100)
        assert "were released" in person.confirm(preview)
        taken: list[ShareRecord] = []
        while not taken:
            taken = other.poll(timeout_ms=1_000)
        assert [(each.offset, each.delivery_count) for each in taken] == [(0, 2)]
        hanging.acknowledge(held[0])
        with pytest.raises(KafkaError, match="no share session"):
            hanging.commit()
        refused = person.send("/group/release", 409, id=name, member="nobody", confirmed=1)
        assert "holds no records any more" in refused
        assert "Kind share group" in readable(refused)


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
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, "2")
        producer.commit_transaction()
    query: dict[str, Any] = {"from": "offset", "offset": 0, "limit": 1, "markers": 1}
    page = person.open(f"/topics/{topic}/records", **query)
    assert "1 aborted" in readable(page), "the marker behind the last record is read, too"
    page = person.open(f"/topics/{topic}/records", **{**query, "limit": 10})
    check_command(command_lines(page)[0])
    shown = readable(page)
    assert re.search(r"1 aborted .* abort of producer \d+, epoch .* 2 .* commit of", shown)
    assert "commit of" not in readable(person.open(f"/topics/{topic}/records", limit=10))
    path = f"/topics/{topic}/records.ndjson"
    download = person.client.get(path, params={"from": "earliest", "markers": 1}).text
    assert [each.get("control", {}).get("kind") for each in map(json.loads, download.splitlines())] == [
        None, "ABORT", None, "COMMIT",
    ]  # fmt: skip


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
    refused = person.send("/schema/register", 409, subject=subject, type="AVRO", text=broken)
    assert "The registry refuses this schema" in refused
    assert "Register it" not in refused
    assert broken in html.unescape(refused)
    listed = person.client.get("/schemas", params={"q": subject, "details": 1}).text
    assert f"{subject} AVRO 2 BACKWARD" in readable(listed)
    preview = person.send("/schema/level", subject=subject, level="FULL")
    check_command(command_lines(preview)[0])
    assert "FULL" in person.confirm(preview)
    preview = person.send("/schema/delete", subject=subject, version=1)
    check_command(command_lines(preview)[0])
    person.confirm(preview)
    person.open("/schema", 404, subject=subject, version=1)


def test_a_schema_that_cannot_be_parsed_is_refused_before_the_preview(
    person: Person, name: str
) -> None:
    """The subject is new, so nothing else would have looked at the schema."""
    text = '{"type": "strin"}'
    page = person.send("/schema/register", 409, subject=name, type="AVRO", text=text)
    assert "Register it" not in page
    assert "Invalid schema of type AVRO, details: " in readable(page)
    assert text in html.unescape(page)


def test_a_schema_with_references_is_registered_and_keeps_the_one_that_it_needs(
    person: Person, name: str
) -> None:
    inner = '{"type": "object", "properties": {"city": {"type": "string"}}}'
    outer = '{"type": "object", "properties": {"home": {"$ref": "address.json"}}}'
    address, customer = f"{name}-address", f"{name}-customer"
    form: dict[str, Any] = {"type": "JSON", "text": inner, "subject": address}
    person.confirm(person.send("/schema/register", **form))
    form = {"type": "JSON", "text": outer, "subject": customer}
    person.send("/schema/register", 409, **form)
    page = person.send("/schema/register", 400, **form, references="address.json")
    assert "line 1 of the references: 'address.json' is not NAME=SUBJECT:VERSION" in readable(page)
    line = f"address.json={address}:1"
    preview = person.send("/schema/register", **form, references=line)
    (command,) = command_lines(preview)
    assert command.endswith(f"--type JSON --reference {line}")
    check_command(command)
    assert "The schema was registered" in person.confirm(preview)

    page = person.open("/schema/register", subject=customer)
    assert "<option selected>JSON</option>" in page
    assert line in html.unescape(page)
    next_one = outer.replace("{", '{"title": "a customer", ', 1)
    form = {"type": "JSON", "text": next_one, "subject": customer, "references": line}
    assert "The schema was registered" in person.confirm(person.send("/schema/register", **form))

    page = readable(person.send("/schema/delete", 409, subject=address, version=1))
    assert f"{customer} version 1, {customer} version 2" in page
    assert "would be deleted" not in page


def test_a_refused_form_keeps_what_was_typed(person: Person, topic: str) -> None:
    typed = 'my "text" & more'
    forms: tuple[tuple[str, dict[str, Any]], ...] = (
        ("/create-topic", {"name": "a/b", "configs": f"x={typed}"}),
        (f"/topics/{topic}/produce", {"value": f"{{{typed}", "value_format": "json"}),
        (f"/topics/{topic}/produce", {"value": "1", "headers": typed}),
        (f"/topics/{topic}/configs", {"configs": typed}),
        ("/security/acls", {"principal": typed}),
        ("/security/users", {"name": typed, "password": "s3cret"}),
        ("/security/quotas", {"user": typed, "value": "much"}),
        ("/schema/register", {"subject": "s", "text": "1", "references": typed}),
    )
    for path, form in forms:
        page = person.send(path, 400, **form)
        assert 'role="alert"' in page, path
        assert "Back to the start" not in page, path
        is_hidden = path == "/security/acls"  # this cluster has no authorizer
        assert is_hidden or typed in html.unescape(page).replace(f"{typed[:40]!r}", ""), path
        assert "s3cret" not in page, "a password is on no page"
    for path in (f"/topics/{topic}/records", f"/topics/{topic}/live"):
        page = person.open(path, 400, filter=f"key == {typed}")
        assert f'value="key == {typed}"' in html.unescape(page)
        assert 'role="alert"' in page
    page = person.open(f"/topics/{topic}-none/records", 400, filter="key ==")
    assert "the filter is not clear" in page, "there is no form of a topic that does not exist"
    assert "Back to the start" in page
    assert "no ACL can be added" in readable(person.open("/security/acls"))
    assert "Add an ACL" not in person.open("/security/acls")


def test_a_record_is_produced_by_the_latest_schema_of_a_subject(
    person: Person, topic: str, api: httpx.Client
) -> None:
    texts = {
        "AVRO": '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}',
        "JSON": '{"type": "object", "properties": {"a": {"type": "integer"}}}',
        "PROTOBUF": 'syntax = "proto3"; message M { int32 a = 1; }',
    }
    ids = {}
    for kind, text in texts.items():
        body = {"schema": text, "schemaType": kind}
        path = f"/subjects/{topic}-{kind}/versions"
        ids[kind] = int(api.post(path, json=body).raise_for_status().json()["id"])
    form: dict[str, Any] = {"key_format": "json by schema", "value_format": "json by schema"}
    form["key_subject"] = f"{topic}-AVRO"
    for kind, schema_id in ids.items():
        form["value_subject"] = f"{topic}-{kind}"
        page = person.send(f"/topics/{topic}/produce", **form, key='{"a": 7}', value='{"a": 5}')
        shown = readable(page)
        assert f"schema {schema_id}, " in shown.partition("Value ")[2]
        assert '{ "a": 5 }' in shown
        assert '{ "a": 7 }' in shown
        page = person.send(f"/topics/{topic}/produce", 400, **form, value='{"a": "x"}')
        assert f"the value does not fit schema id {schema_id}" in readable(page)
        assert '{"a": "x"}' in html.unescape(page)
    form["value_subject"] = f"{topic}-none"
    person.send(f"/topics/{topic}/produce", 404, **form, value="1")
    assert "tombstone" in person.send(
        f"/topics/{topic}/produce", key="k", value="null", value_format="json by schema",
        value_subject=f"{topic}-AVRO",
    )  # fmt: skip


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
