"""Chromium shows what a person reads on the console's pages, and axe-core judges them.

Needs Chromium. Without Node.js and npm, accessibility is not judged.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from log_service.client import (
    BlockingAdmin,
    BlockingProducer,
    BlockingShareConsumer,
    NewTopic,
    TopicPartition,
)
from tests.helpers.console_process import ConsoleProcess
from tests.helpers.registry_process import RegistryProcess
from tests.integration.http.console_browser import PAYLOADS, SIZES, axe, faults, show
from tests.platform.browser import Tab, needs_browser, tab

pytestmark = [needs_browser, pytest.mark.timeout(300)]

LOGINS = {
    "authentication.method": "basic",
    "login.security.protocol": "SASL_PLAINTEXT",
    "login.sasl.mechanism": "SCRAM-SHA-512",
}


@pytest.fixture(scope="module")
def console(
    bootstrap: str, registry: RegistryProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    properties = {"schema.registry.url": registry.url}
    with ConsoleProcess(tmp_path_factory.mktemp("console"), bootstrap, None, **properties) as run:
        yield run


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with tab(tmp_path_factory.mktemp("chromium") / "home") as opened:
        opened.ask("Page.enable")
        yield opened


@pytest.fixture
def hostile(bootstrap: str, name: str) -> str:
    """A topic whose records would be markup."""
    with BlockingAdmin(bootstrap) as admin, BlockingProducer(bootstrap) as producer:
        admin.create_topics([NewTopic(name=name)])
        for each in PAYLOADS:
            producer.send(name, each, each, headers=[(each, each.encode())])
            producer.send(name, json.dumps({each: each}), each)
        producer.flush()
        admin.alter_group_offsets(f"{name}{PAYLOADS[0]}", {TopicPartition(name, 0): 1})
    return name


def test_hostile_records_and_names_stay_text(
    console: ConsoleProcess, page: Tab, hostile: str
) -> None:
    paths = (f"/topics/{hostile}/records?limit=100", "/groups")
    for path in paths:
        show(page, f"{console.url}{path}")
        page.value("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        read = page.value("document.querySelector('main').innerText")
        assert "document.title = 'taken'" in read
        assert "taken" not in page.value("document.title")
        assert (
            page.value("document.querySelectorAll('main script, main img, main svg').length") == 0
        )
        assert page.value("document.querySelectorAll('h1').length") == 1
    assert "49" not in page.value("document.title")


def test_a_page_loads_nothing_from_elsewhere_and_runs_no_inline_script(
    console: ConsoleProcess, page: Tab
) -> None:
    show(page, f"{console.url}/topics")
    names = page.value("performance.getEntriesByType('resource').map(each => each.name)")
    assert names
    assert all(name.startswith(console.url) for name in names)
    page.value(
        "{ const made = document.createElement('script');"
        " made.textContent = \"document.title = 'taken'\"; document.body.append(made); }"
    )
    assert "taken" not in page.value("document.title")


def test_the_search_and_the_details_come_without_a_new_page(
    console: ConsoleProcess, page: Tab, hostile: str
) -> None:
    show(page, f"{console.url}/topics")
    page.wait_for("document.querySelectorAll('#table td.muted').length === 0")
    page.fill("input[name=q]", hostile)
    page.wait_for("document.querySelectorAll('#table tbody tr').length === 1")
    assert hostile in page.value("document.querySelector('#table tbody').innerText")


def test_new_records_appear_live(
    console: ConsoleProcess, page: Tab, hostile: str, bootstrap: str
) -> None:
    show(page, f"{console.url}/topics/{hostile}/live")
    page.wait_for("document.querySelector('[data-state]').textContent.includes('Waiting')")
    with BlockingProducer(bootstrap) as producer:
        producer.send(hostile, PAYLOADS[1], "live")
        producer.flush()
    page.wait_for("document.querySelectorAll('live-records tbody tr').length === 1")
    assert page.value("document.querySelectorAll('live-records img').length") == 0


def test_every_page_is_accessible_and_fits(
    console: ConsoleProcess, page: Tab, hostile: str
) -> None:
    program = axe()
    one = f"/topics/{hostile}"
    paths = (
        "/cluster", "/flow", "/topics", "/create-topic", "/groups", "/schemas",
        "/schema/register", "/transactions",
        "/transactions/hanging", "/security/acls", "/security/users", "/security/quotas", one,
        f"{one}/configs", f"{one}/records", f"{one}/live", f"{one}/produce", "/topics/missing",
    )  # fmt: skip
    assert not wrong_on(page, program, [f"{console.url}{path}" for path in paths], SIZES)


def test_the_pages_of_one_thing_are_accessible_and_fit(
    console: ConsoleProcess,
    page: Tab,
    hostile: str,
    api: httpx.Client,
    tmp_path: Path,
) -> None:
    """Of a group, a queue, a subject, a transaction, a key, and of somebody without a session."""
    program = axe()
    bootstrap = console.bootstrap
    api.post(f"/subjects/{hostile}/versions", json={"schema": '"string"'}).raise_for_status()
    with BlockingProducer(bootstrap, transactional_id=hostile) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(hostile, "1")
        producer.flush()
        with (
            BlockingShareConsumer(bootstrap, group_id=f"{hostile}-queue") as queue,
            ConsoleProcess(tmp_path, bootstrap, None, **LOGINS) as closed,
        ):
            queue.subscribe([hostile])
            queue.poll(timeout_ms=1_000)
            urls = [
                f"{console.url}/group?id={quote(hostile + PAYLOADS[0])}",
                f"{console.url}/group?id={hostile}-queue",
                f"{console.url}/schema?subject={hostile}",
                f"{console.url}/transaction?id={hostile}",
                f"{console.url}/topics/{hostile}/records?key={quote(PAYLOADS[2])}",
                f"{console.url}/topics/{hostile}/records?markers=1",
                f"{console.url}/flow?q={hostile}",
                f"{closed.url}/login",
            ]
            assert not wrong_on(page, program, urls, ((1280, "dark"), *SIZES))


def wrong_on(
    page: Tab, program: str, urls: Sequence[str], sizes: Sequence[tuple[int, str]]
) -> dict[tuple[str, int, str], list[Any]]:
    """Return what is wrong on pages, by URL, width and colour scheme."""
    found = {}
    for url in urls:
        for width, scheme in sizes:
            show(page, url, width, scheme)
            if wrong := faults(page, program):
                found[url, width, scheme] = wrong
    return found
