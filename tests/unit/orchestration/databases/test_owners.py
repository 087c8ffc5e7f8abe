"""A table of a database has one owner.

Another lake's asset is refused, and takes it over only where a person says so.
"""

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from orchestration.cli import surroundings
from orchestration.cli.take_over import take_over
from orchestration.databases.owners import LAKE_ID, lake_id
from orchestration.lake.tables import Lake, replace_all
from orchestration.marts.database_copy import sql_table
from orchestration.resources.database import DatabaseResource, open_engine
from orchestration.resources.lake import LakeResource
from orchestration.resources.warehouse import WarehouseResource

COPIED = sql_table("goods", table="stock")
Copy = Callable[[str], str]


def test_a_lake_has_one_id_however_many_ask_first(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lake_id, [root] * 32))
    assert len(found) == 1
    assert [one.name for one in root.iterdir()] == [LAKE_ID]
    root.rename(tmp_path / "moved")
    assert {lake_id(tmp_path / "moved")} == found
    assert lake_id(tmp_path / "another") not in found


def test_a_lake_on_a_file_system_without_links_has_an_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert lake_id(tmp_path / "lake") == lake_id(tmp_path / "lake")
    assert [one.name for one in (tmp_path / "lake").iterdir()] == [LAKE_ID]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'shared.db'}"


@pytest.fixture
def copy(tmp_path: Path, url: str) -> Copy:
    """Run the project on the lake of that name; returns why the run failed, or nothing."""

    def run(name: str) -> str:
        lake = Lake(tmp_path / name)
        rows = pa.table({"at": [name]})
        if lake.snapshot("stock") is None:
            replace_all(lake.create("stock", rows.schema), rows, {}, {})
        result = dg.materialize(
            [COPIED], resources=resources(tmp_path / name, url), raise_on_error=False
        )
        failures = [
            event.step_failure_data
            for event in result.all_events
            if event.event_type_value == "STEP_FAILURE"
        ]
        return "; ".join(
            str(one.user_failure_data.description) for one in failures if one.user_failure_data
        )

    return run


def resources(lake: Path, url: str) -> dict[str, object]:
    return {
        "lake": LakeResource(root=str(lake)),
        "database": DatabaseResource(url=url),
        "warehouse": WarehouseResource(),
    }


def execute(url: str, statement: str) -> list[object]:
    engine = open_engine(url)
    with engine.begin() as connection:
        found = connection.execute(sa.text(statement))
        rows = list(found.scalars()) if found.returns_rows else []
    engine.dispose()
    return rows


def test_a_second_deployment_does_not_replace_the_rows_of_the_first(copy: Copy, url: str) -> None:
    """It did, with older rows, and neither run said a word."""
    assert copy("production") == ""
    said = copy("staging")
    assert "the SQL table goods stays as it was: the table goods in sqlite" in said
    assert "belongs to sql/goods of the lake" in said
    assert "/production, which last wrote it at " in said
    assert "tidelog take-over goods" in said
    assert execute(url, "SELECT at FROM goods") == ["production"]
    assert copy("production") == ""


def test_a_table_of_an_earlier_release_is_claimed_by_the_lake_that_its_rows_came_from(
    copy: Copy, url: str
) -> None:
    assert copy("production") == ""
    execute(url, "DROP TABLE tidelog_owners")
    assert (
        "belongs to another sql_table: its rows are those of the lake table with the id "
        in copy("staging")
    )
    assert copy("production") == ""
    assert "belongs to sql/goods of the lake" in copy("staging")


def test_a_table_that_no_asset_made_is_not_emptied(copy: Copy, url: str) -> None:
    execute(url, "CREATE TABLE goods (at VARCHAR)")
    execute(url, "INSERT INTO goods VALUES ('a service')")
    assert "belongs to somebody else: no sql_table made it" in copy("production")
    assert execute(url, "SELECT at FROM goods") == ["a service"]


def test_a_table_is_taken_over_where_a_person_says_so(
    copy: Copy, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy("production")
    copy("staging")
    project = dg.Definitions(assets=[COPIED], resources=resources(tmp_path / "staging", url))
    monkeypatch.setattr(surroundings, "loaded_project", lambda: project)
    monkeypatch.setattr(surroundings, "found_settings", lambda: None)

    def told(*arguments: str) -> str:
        outcome = CliRunner().invoke(take_over, arguments)
        assert outcome.exit_code == (1 if outcome.output.startswith("Error") else 0), outcome.output
        return outcome.output

    assert "the project keeps no table gods in a database; it has " in told("gods")
    said = told("goods")
    assert "sql/goods: the table belongs to sql/goods of the lake" in said
    assert "nothing was done; --execute takes it over" in said
    assert "belongs to" in copy("staging")
    assert "It is this project's own now" in told("sql/goods", "--execute")
    assert "there is nothing to take over" in told("goods", "--execute")
    assert copy("staging") == ""
    assert execute(url, "SELECT at FROM goods") == ["staging"]
    assert "/staging, which last wrote it" in copy("production")
