"""The pages of a console over a real cluster, and the changes that people make with them."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from log_service.client import BlockingAdmin, BlockingConsumer, BlockingProducer, NewTopic
from tests.helpers.console_process import ConsoleProcess
from tests.helpers.registry_process import RegistryProcess
from tests.integration.http.console_pages import Person, check_command, command_lines, readable


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
        "/", "/cluster", "/topics", "/create-topic", "/groups", "/schemas", "/transactions",
        "/transactions/hanging", "/security", "/security/acls", "/security/users",
        "/security/quotas", f"/topics/{name}", f"/topics/{name}/configs",
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
