"""The pages of the platform in a console over a real cluster and a real lake."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.helpers.broker_process import BrokerProcess
from tests.helpers.console_process import ConsoleProcess
from tests.integration.http.console_pages import Person, check_command, command_lines, readable
from tests.platform.console_project import (
    GOOD_COUNT,
    HOSTILE,
    JOB,
    LONG,
    WAITING_COUNT,
    ConsoleProject,
    ProjectConsole,
    completed,
)
from tests.platform.installation import wait_until

pytestmark = [pytest.mark.platform, pytest.mark.timeout(600)]
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProject]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as broker:
        made = ConsoleProject(folder=tmp_path_factory.mktemp("shop"), bootstrap=broker.bootstrap)
        made.write()
        yield made


@pytest.fixture(scope="module")
def console(project: ConsoleProject) -> Iterator[ProjectConsole]:
    with project.console() as running:
        yield running


@pytest.fixture
def person(console: ProjectConsole) -> Iterator[Person]:
    with Person(console.url) as found:
        found.open("/pipelines/sql")
        yield found


def processes(console: ProjectConsole) -> dict[str, psutil.Process]:
    """Return the console's processes of the platform, by their kind."""
    children = psutil.Process(console.process_id).children()
    return {each.cmdline()[-1]: each for each in children}


def ask(person: Person, question: str) -> str:
    return completed(person, person.send("/pipelines/sql", question=question))


def test_every_page_opens_shows_text_and_names_commands_that_exist(person: Person) -> None:
    paths = (
        "/pipelines", "/pipelines/tables/clean_orders", "/pipelines/tables/by_note",
        "/pipelines/tables/clean_orders/rows", "/pipelines/sql", "/pipelines/sql?question=SELECT",
        "/pipelines/letters", "/pipelines/letters/clean_orders",
        "/pipelines/letters/clean_orders?rule=schema",
        "/pipelines/letter?table=clean_orders&place=0:40",
    )  # fmt: skip
    for path in paths:
        page = person.open(path)
        assert HOSTILE not in page, path
        lines = command_lines(page)
        assert lines, path
        for line in lines:
            check_command(line)


def test_the_list_tells_lag_rows_and_dead_letters(person: Person) -> None:
    page = readable(person.open("/pipelines"))
    assert re.search(rf"lake/clean_orders behind orders {WAITING_COUNT} .* {GOOD_COUNT} 3 ", page)
    assert "lake/clean_salaries up to date salaries 0" in page
    assert "marts/by_note built" in page
    assert "lake/clean_orders" in person.part("/pipelines")


def test_the_flow_leads_from_topics_through_tables_to_marts(person: Person) -> None:
    page = person.part("/flow")
    assert 'href="/pipelines/tables/clean_orders"' in page
    shown = readable(page)
    assert re.search(rf"topic orders .*table clean_orders .*{WAITING_COUNT}", shown, re.IGNORECASE)
    assert re.search(r"table clean_orders .*mart by_note", shown, re.IGNORECASE)


def test_a_table_leads_to_its_topics_records_commits_and_rows(person: Person) -> None:
    page = person.open("/pipelines/tables/clean_orders")
    assert 'href="/topics/orders/records?partition=0&amp;from=offset&amp;offset=0"' in page
    assert "orders 0:0-43" in readable(page)
    assert "amount INTEGER" in readable(page)
    assert '<a href="/topics/orders">orders</a>' in page
    rows = person.open("/pipelines/tables/clean_orders/rows")
    assert rows.count("<tr>") == 1 + GOOD_COUNT
    assert "a39" in rows
    person.open("/pipelines/tables/nothing", 404)


def test_a_question_is_answered_cut_and_refused(person: Person) -> None:
    answer = ask(person, "SELECT note, count(*) AS n FROM clean_orders GROUP BY ALL ORDER BY note")
    assert "4 rows" in answer
    assert 'data-kind="number" data-name="n"' in answer
    assert HOSTILE not in answer
    assert "plot.js" in answer
    assert "40" in readable(ask(person, "SELECT count(*) FROM topics.orders WHERE _offset < 40"))
    assert "the first 500 rows are shown" in ask(person, "FROM range(1000000)")
    long = ask(person, "SELECT repeat('x', 100000) AS x FROM range(500)")
    assert len(long) < 1_000_000
    assert "Permission Error" in ask(person, "FROM read_text('/etc/hostname')")
    assert "questions only read" in ask(person, "CREATE TABLE x AS SELECT 1")
    assert "does not exist" in ask(person, "FROM nothing")
    person.send("/pipelines/sql", 400, question="x" * 20_001)


def test_a_question_is_stopped_and_the_next_one_is_answered(
    console: ProjectConsole, person: Person
) -> None:
    page = person.send("/pipelines/sql", question=LONG)
    job = JOB.search(page)
    assert job is not None
    assert "DuckDB works on it" in page
    before = processes(console)["questions"]
    assert "The question was stopped" in person.send(f"{job[1]}/stop")
    before.wait(PATIENCE_S)
    assert "42" in ask(person, "SELECT 42")


def test_a_question_that_needs_too_much_memory_is_refused(person: Person) -> None:
    huge = "SELECT list(range) FROM range(1000000000)"
    assert "memory" in ask(person, huge).lower()
    assert "42" in ask(person, "SELECT 42")


def test_a_link_with_a_question_asks_nothing(project: ConsoleProject) -> None:
    with project.console() as running, Person(running.url) as person:
        assert "SELECT 42" in person.open("/pipelines/sql", question="SELECT 42")
        assert "questions" not in processes(running)


def test_a_change_needs_the_token_of_a_page(console: ProjectConsole) -> None:
    for path in ("/pipelines/sql", "/pipelines/fix", "/pipelines/replay"):
        forged = httpx.post(
            f"{console.url}{path}",
            data={"question": "SELECT 1", "table": "clean_orders"},
            headers={"origin": "http://evil.example"},
        )
        assert forged.status_code == 403


def test_a_letter_leads_to_its_record_and_to_the_row_that_it_repeats(person: Person) -> None:
    page = person.open("/pipelines/letter", table="clean_orders", place="0:42")
    assert "/topics/orders/records?partition=0&amp;from=offset&amp;offset=42&amp;limit=1" in page
    assert "It repeats the row of 0:3" in readable(page)
    record = person.open("/topics/orders/records?partition=0&from=offset&offset=42&limit=1")
    assert '"id": "a3"' in readable(record)
    listed = readable(person.open("/pipelines/letters/clean_orders", rule="schema"))
    assert "1 of 1 dead letter" in listed
    person.open("/pipelines/letter", 400, table="clean_orders", place="0:1")
    person.open("/pipelines/letter", 400, table="clean_orders", place="nonsense")
    person.open("/pipelines/letters/nothing", 400)


def test_a_replay_is_counted_before_it_happens(person: Person) -> None:
    wanted: tuple[tuple[dict[str, Any], int], ...] = (
        ({}, 3),
        ({"rule": "schema"}, 1),
        ({"place": "0:40"}, 1),
    )
    for form, count in wanted:
        page = completed(person, person.send("/pipelines/replay", table="clean_orders", **form))
        assert "Nothing has changed yet" in page
        assert f"{count} dead letter" in readable(page)
        for line in command_lines(page):
            check_command(line)
    person.send("/pipelines/replay", 400, table="clean_orders", rule="schema", place="0:40")
    page = completed(person, person.send("/pipelines/replay", table="nothing"))
    assert "there is no table or topic nothing" in readable(page)


def test_a_letter_is_fixed_and_replayed_as_the_command_does(
    console: ProjectConsole, person: Person
) -> None:
    """It is the one test here that starts Spark, for the trial and for the replay."""
    wrong: dict[str, Any] = {
        "table": "clean_orders",
        "place": "0:40",
        "value": '{"id": "b", "amount": -7}',
    }
    page = completed(person, person.send("/pipelines/fix", **wrong))
    assert "The table would reject it again: amount_is_positive" in readable(page)
    right = {**wrong, "value": json.dumps({"id": "b", "amount": 7, "note": HOSTILE})}
    page = completed(person, person.send("/pipelines/fix", **right))
    assert "The table would take it" in page
    assert HOSTILE not in page
    done = completed(person, person.confirm(page))
    assert "Done: 1 record replayed, 1 row, 0 dead letters" in readable(done)
    assert "7" in readable(ask(person, "SELECT amount FROM clean_orders WHERE id = 'b'"))
    assert "0:40" not in readable(person.open("/pipelines/letters/clean_orders"))
    repeated = person.send("/pipelines/replay", table="clean_orders", place="0:42")
    done = completed(person, person.confirm(completed(person, repeated)))
    assert "Done: 1 record replayed, 0 rows, 1 dead letter left" in readable(done)
    told = Path(console.log).read_text()
    assert "action=replay dead letters target=clean_orders 0:42 result=done" in told
    assert "action=fix dead letters target=clean_orders 0:40 result=done" in told
    assert told.count("action=fix dead letters") == 1
    commits = readable(person.open("/pipelines/tables/clean_orders"))
    assert "replay orders 0:40-41" in commits


def test_a_changed_project_is_loaded_anew(project: ConsoleProject, person: Person) -> None:
    assert "marts/added" not in person.open("/pipelines")
    file = project.folder / "assets" / "more.py"
    file.write_text(
        'from orchestration import mart\n\nadded = mart("added", sql="SELECT 1 AS n", tables=[])\n'
    )
    try:
        wait_until(lambda: "marts/added" in person.open("/pipelines"), PATIENCE_S, lambda: "")
        file.write_text("broken = ")
        wait_until(
            lambda: "more.py" in person.client.get("/pipelines").text, PATIENCE_S, lambda: ""
        )
    finally:
        file.unlink()
    wait_until(lambda: person.client.get("/pipelines").status_code == 200, PATIENCE_S, lambda: "")


def test_processes_end_with_a_console_that_stops_or_is_killed(project: ConsoleProject) -> None:
    for is_killed in (False, True):
        with project.console() as running, Person(running.url) as person:
            person.open("/pipelines/sql")
            person.send("/pipelines/sql", question=LONG)
            found = processes(running)
            assert found.keys() >= {"facts", "questions"}
            if is_killed:
                running.kill()
            else:
                running.stop()
            for each in found.values():
                each.wait(PATIENCE_S)


def test_outside_of_a_project_the_page_says_what_to_do(
    project: ConsoleProject, tmp_path: Path
) -> None:
    elsewhere = ConsoleProject(folder=tmp_path, bootstrap=project.bootstrap)
    with elsewhere.console() as running, Person(running.url) as person:
        assert "/pipelines" not in person.open("/topics")
        assert "runs in no project" in person.open("/pipelines")
        assert "runs in no project" in person.open("/pipelines/sql", 404)
        assert processes(running) == {}
    assert isinstance(running, ConsoleProcess)
