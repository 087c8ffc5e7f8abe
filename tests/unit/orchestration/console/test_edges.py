"""The flow between topics, tables and marts, as the console's pages and its picture tell it."""

from orchestration.console.edges import Edge, platform_edges
from orchestration.console.values import TableFacts


def test_a_topic_leads_to_its_table_and_the_table_to_its_mart() -> None:
    clean = TableFacts(
        name="clean", asset="lake/clean", topics=("orders",), lag=7, records_per_s=1.5
    )
    daily = TableFacts(name="daily", asset="marts/daily", inputs=("lake/clean",))
    assert platform_edges([daily, clean]) == (
        Edge(source="lake/clean", target="marts/daily"),
        Edge(source="topics/orders", target="lake/clean", lag=7, records_per_s=1.5),
    )


def test_the_lag_of_a_join_is_of_neither_topic_alone() -> None:
    joined = TableFacts(name="paid", asset="lake/paid", topics=("orders", "payments"), lag=9)
    assert [(edge.source, edge.lag) for edge in platform_edges([joined])] == [
        ("topics/orders", None),
        ("topics/payments", None),
    ]


def test_a_transform_leads_on_to_the_topic_that_it_sends_to() -> None:
    good = TableFacts(name="good", asset="lake/good", topics=("orders",), target="good_orders")
    assert platform_edges([good])[0] == Edge(source="lake/good", target="topics/good_orders")
