"""A mart that cannot be parsed, or would wait for ever, is refused with a sentence."""

from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from orchestration.assembly import assemble
from orchestration.marts.mart import mart


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (
            "SELEC 1",
            'the sql of the mart m cannot be parsed: Parser Error: syntax error at or near "SELEC"',
        ),
        (
            "SELECT 1; SELECT 2",
            "the sql of the mart m has to be one SELECT, and it is SELECT and SELECT",
        ),
        ("DROP TABLE t", "the sql of the mart m has to be one SELECT, and it is DROP"),
        ("-- later", "the sql of the mart m has to be one SELECT, and it is nothing"),
    ],
)
def test_what_is_not_one_question_is_refused(sql: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        mart("m", sql=sql, tables=["t"])


@pytest.mark.parametrize(
    "sql",
    [
        "FROM t",
        "WITH a AS (FROM t) SELECT * FROM a -- all",
        "PIVOT t ON a USING sum(b)",
        "SELECT 1;",
        "VALUES (1)",
    ],
)
def test_whatever_answers_is_a_question(sql: str) -> None:
    assert mart("m", sql=sql, tables=["t"]).key.path == ["marts", "m"]


def table(name: str) -> dg.AssetsDefinition:
    @dg.asset(key=["lake", name])
    def made() -> None:
        pass

    return made


def test_tables_and_marts_are_named_by_their_assets_or_by_their_names() -> None:
    first = mart("first", sql="FROM t", tables=[table("t")])
    for marts in ([first], ["first"]):
        second = mart("second", sql="FROM first", tables=["t"], marts=marts)
        assert second.asset_deps[second.key] == {dg.AssetKey(["lake", "t"]), first.key}
        assert "Built anew whenever t or first changes" in str(
            second.descriptions_by_key[second.key]
        )


def test_an_asset_of_the_other_kind_is_refused() -> None:
    first = mart("first", sql="FROM t", tables=["t"])
    with pytest.raises(
        ValueError,
        match=r"the mart m reads marts/first as a table of the lake, .*: only a mart reads marts, which it names among its marts",
    ):
        mart("m", sql="FROM first", tables=[first])
    with pytest.raises(
        ValueError,
        match="the mart m reads lake/t as a mart, and that is none: name it among the tables",
    ):
        mart("m", sql="FROM t", tables=[], marts=[table("t")])


def module(**declared: Any) -> ModuleType:
    made = ModuleType("declared")
    vars(made).update(declared)
    return made


def test_a_mart_of_what_nobody_makes_is_refused() -> None:
    lonely = mart("m", sql="SELECT 1", tables=["nowhere"], marts=["other"])
    with pytest.raises(
        ValueError,
        match=r"marts/m reads the table nowhere, which no asset of the project makes; tables that one makes: dead_letters\. ",
    ):
        assemble([module(lonely=lonely)])
    elsewhere = dg.AssetSpec(["lake", "nowhere"])
    with pytest.raises(
        ValueError, match=r"marts/m reads the mart other, which .*; marts that one makes: m"
    ):
        assemble([module(lonely=lonely, elsewhere=elsewhere)])
    other = mart("other", sql="SELECT 1", tables=["nowhere"])
    assert (
        assemble([module(lonely=lonely, elsewhere=elsewhere, other=other)])
        .resolve_asset_graph()
        .has(lonely.key)
    )
