"""Chromium shows the platform's pages: hostile rows stay text, answers are plotted, axe-core judges.

Needs Chromium. Without Node.js and npm, accessibility is not judged.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, BlockingProducer, NewTopic
from tests.helpers.broker_process import BrokerProcess
from tests.integration.http.console_browser import PAYLOADS, axe, faults, show
from tests.platform.browser import Tab, needs_browser, tab
from tests.platform.console_project import ConsoleProject, ProjectConsole

pytestmark = [pytest.mark.platform, needs_browser, pytest.mark.timeout(600)]
SCREENS = ((1280, "light"), (1280, "dark"), (390, "light"), (390, "dark"))
IS_TEXT = "document.querySelectorAll('main script, main img, main svg').length"
PICTURES = "TIDELOG_TEST_PICTURES"
"""The folder for pictures of each screen, if somebody wants to look at them."""


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectConsole]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as broker:
        project = ConsoleProject(folder=tmp_path_factory.mktemp("shop"), bootstrap=broker.bootstrap)
        project.write()
        with BlockingAdmin(broker.bootstrap) as admin, BlockingProducer(broker.bootstrap) as sender:
            admin.create_topics([NewTopic(name="hostile")])
            for each in PAYLOADS:
                sender.send("hostile", each, each, headers=[(each, each.encode())])
            sender.flush()
        with project.console() as running:
            yield running


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with tab(tmp_path_factory.mktemp("chromium") / "home") as opened:
        opened.ask("Page.enable")
        yield opened


def ask(page: Tab, console: ProjectConsole, question: str) -> str:
    """Ask in the box, wait for the answer, and return the address of its page."""
    show(page, f"{console.url}/pipelines/sql")
    page.fill("textarea[name=question]", question)
    page.value("document.querySelector('form.wider button').click()")
    page.wait_for(
        "location.pathname.startsWith('/pipelines/jobs/')"
        " && !!document.querySelector('#job [role=status], #job [role=alert]')"
        " && !document.querySelector('#job [hx-get]')"
    )
    return str(page.value("location.href"))


def check_text(page: Tab, *, count: int = 1) -> None:
    assert "taken" not in page.value("document.title")
    assert page.value(IS_TEXT) == 0
    assert page.value("document.querySelectorAll('h1').length") == count


def test_hostile_rows_letters_and_columns_stay_text(console: ProjectConsole, page: Tab) -> None:
    for path in (
        "/pipelines", "/pipelines/letters", "/pipelines/letters/clean_orders",
        "/pipelines/letter?table=clean_orders&place=0:41",
        "/pipelines/tables/clean_orders/rows",
    ):  # fmt: skip
        show(page, f"{console.url}{path}")
        check_text(page)
    read = page.value("document.querySelector('main').innerText")
    assert "document.title = 'taken'" in read
    for each in PAYLOADS[:6]:
        quoted, text = each.replace('"', '""'), each.replace("'", "''")
        ask(page, console, f"SELECT '{text}' AS \"{quoted}\", 7 AS n UNION ALL SELECT 'x', 8")
        check_text(page)
        assert each in page.value("document.querySelector('#answer').textContent")
    ask(page, console, "SELECT _key, _value, _headers FROM topics.hostile")
    check_text(page)
    ask(page, console, "SELECT * FROM \"<img src=x onerror=document.title='taken'>\"")
    check_text(page)


def test_an_answer_is_plotted_over_a_chosen_column(console: ProjectConsole, page: Tab) -> None:
    ask(page, console, "SELECT _timestamp, amount, amount * 2 AS twice, id FROM clean_orders")
    page.wait_for("!!document.querySelector('line-plot canvas')")
    legend = page.value("document.querySelector('line-plot .u-legend').innerText")
    assert "amount" in legend
    assert "twice" in legend
    assert page.value("document.querySelector('line-plot select').value") == "0"
    page.value(
        "{ const select = document.querySelector('line-plot select'); select.value = '3';"
        " select.dispatchEvent(new Event('change')); }"
    )
    page.wait_for("document.querySelector('line-plot .u-legend').innerText.includes('id')")
    ask(page, console, "SELECT id FROM clean_orders")
    assert not page.value("!!document.querySelector('line-plot canvas')")


def test_rows_come_after_the_page_and_a_question_can_be_stopped(
    console: ProjectConsole, page: Tab
) -> None:
    show(page, f"{console.url}/pipelines/tables/clean_orders")
    page.wait_for("document.querySelectorAll('#rows tbody tr').length >= 40")
    show(page, f"{console.url}/pipelines/sql")
    page.fill(
        "textarea[name=question]", "FROM range(1000000000) AS a, range(1000) ORDER BY ALL DESC"
    )
    page.value("document.querySelector('form.wider button').click()")
    page.wait_for("!!document.querySelector('#job button.danger')")
    page.value("document.querySelector('#job button.danger').click()")
    page.wait_for("document.querySelector('#job').innerText.includes('was stopped')")


def test_every_screen_is_accessible_and_fits(console: ProjectConsole, page: Tab) -> None:
    program = axe()
    answer = ask(page, console, "SELECT _timestamp, amount, note FROM clean_orders")
    refused = ask(page, console, "FROM read_text('/etc/hostname')")
    show(page, f"{console.url}/pipelines/letters/clean_orders")
    page.value("document.querySelector('form[action=\"/pipelines/replay\"] button').click()")
    page.wait_for("document.body.innerText.includes('Nothing has changed yet')")
    urls = {
        "preview": str(page.value("location.href")),
        "answer": answer,
        "refused": refused,
        **{
            path: f"{console.url}{path}"
            for path in (
                "/pipelines", "/pipelines/tables/clean_orders", "/pipelines/tables/by_note",
                "/pipelines/sql", "/pipelines/letters", "/pipelines/letters/clean_orders",
                "/pipelines/letter?table=clean_orders&place=0:40",
                "/pipelines/tables/nothing",
            )
        },
    }  # fmt: skip
    found = {}
    for name, url in urls.items():
        for width, scheme in SCREENS:
            show(page, url, width, scheme)
            page.wait_for(
                "!document.querySelector('[hx-trigger=load]') || !!document.querySelector('#rows table, #rows .notice')"
            )
            if PICTURES in os.environ:
                file = f"{name.replace('/', '_').partition('?')[0]}-{width}-{scheme}.png"
                page.screenshot(Path(os.environ[PICTURES]) / file)
            if wrong := faults(page, program):
                found[name, width, scheme] = wrong
    assert not found
