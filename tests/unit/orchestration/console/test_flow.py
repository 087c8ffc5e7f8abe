"""The flow between topics, tables and marts, as the console's picture shows it."""

from log_service.http.console.flow import FlowEdge, FlowKind, FlowNode
from orchestration.console.flow import platform_flow
from orchestration.console.values import TableFacts

ORDERS = FlowNode(kind=FlowKind.TOPIC, name="orders")
CLEAN = FlowNode(kind=FlowKind.TABLE, name="clean")


def test_a_topic_leads_to_its_table_and_the_table_to_its_mart() -> None:
    clean = TableFacts(
        name="clean", asset="lake/clean", topics=("orders",), lag=7, records_per_s=1.5
    )
    daily = TableFacts(
        name="daily",
        asset="marts/daily",
        inputs=("lake/clean",),
        failure="no column day",
        is_mart=True,
    )
    found = platform_flow([daily, clean])
    mart = FlowNode(kind=FlowKind.MART, name="daily")
    assert found.edges == (
        FlowEdge(source=ORDERS, target=CLEAN, lag=7, records_per_s=1.5),
        FlowEdge(source=CLEAN, target=mart),
    )
    assert found.paths == ((CLEAN, "/pipelines/tables/clean"), (mart, "/pipelines/tables/daily"))
    assert found.failed == ((mart, "no column day"),)


def test_the_lag_of_a_join_is_of_neither_topic_alone() -> None:
    joined = TableFacts(name="paid", asset="lake/paid", topics=("orders", "payments"), lag=9)
    assert [(edge.source.name, edge.lag) for edge in platform_flow([joined]).edges] == [
        ("orders", None),
        ("payments", None),
    ]


def test_a_transform_leads_on_to_the_topic_that_it_sends_to() -> None:
    good = TableFacts(name="good", asset="lake/good", topics=("orders",), target="good_orders")
    assert platform_flow([good]).edges[1].target == FlowNode(
        kind=FlowKind.TOPIC, name="good_orders"
    )
