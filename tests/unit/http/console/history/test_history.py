"""Samples stay within their bounds, and become lines of a plot."""

import pytest

from log_service.http.console.history.history import History
from log_service.http.console.history.plots import (
    cluster_plots,
    lag_plot,
    path_of,
    plot_of,
    rounded_up,
    shown_count,
)
from log_service.http.console.history.rates import lag_key

NOW_MS = 10_000_000


def test_the_oldest_samples_leave() -> None:
    history = History(slot_count=3)
    for number in range(5):
        history.add(number, {("a",): float(number)})
    assert history.points(("a",), 0) == [(2, 2.0), (3, 3.0), (4, 4.0)]
    assert history.points(("a",), 4) == [(4, 4.0)]
    assert history.points(("b",), 0) == []


def test_a_series_that_is_silent_for_a_round_leaves() -> None:
    history = History(slot_count=3, max_series_count=1)
    history.add(0, {("a",): 1.0})
    history.add(1, {("b",): 1.0})
    assert history.left_out_count == 1
    assert history.points(("a",), 0) == [(0, 1.0), (1, None)]
    for number in range(2, 7):
        history.add(number, {("b",): 2.0})
    assert history.points(("a",), 0) == []
    assert history.points(("b",), 6) == [(6, 2.0)]


def test_a_line_breaks_where_samples_are_missing() -> None:
    points = [
        (NOW_MS - 60_000, 1.0),
        (NOW_MS - 45_000, 2.0),
        (NOW_MS - 30_000, None),
        (NOW_MS - 15_000, 2.0),
        (NOW_MS, 0.0),
    ]
    path = path_of(points, 2.0, NOW_MS)
    assert path.count("M") == 2
    assert path.startswith("M590.0 50.0")
    assert path.endswith("L600.0 100.0")
    assert path_of([(NOW_MS - 600_000, 1.0), (NOW_MS, 1.0)], 1.0, NOW_MS).count("M") == 2


@pytest.mark.parametrize(
    ("value", "top"),
    [(0, 1), (0.0004, 0.001), (0.7, 1), (1, 1), (1.1, 2), (9.6, 10), (10, 10), (501, 1000)],
)
def test_the_upper_edge_is_a_round_number_that_no_value_exceeds(value: float, top: float) -> None:
    assert rounded_up(value) == pytest.approx(top)


@pytest.mark.parametrize("value", [0.99999, 1, 5.5, 99.5, 99.999, 1e6 + 1, 123456789.5])
def test_no_value_is_above_the_edge(value: float) -> None:
    assert value <= rounded_up(value) <= value * 10 + 1


def test_a_plot_says_in_words_what_it_draws() -> None:
    plot = plot_of("In", [("a", [(NOW_MS - 15_000, 4.0), (NOW_MS, 2.0)]), ("b", [])],
                   shown_count, NOW_MS)  # fmt: skip
    (line,) = plot.lines
    assert (line.latest, line.least, line.most, plot.top) == ("2.0", "2.0", "4.0", "5.0")
    assert plot_of("In", [("a", [(NOW_MS, None)])], shown_count, NOW_MS).is_empty


def test_the_lag_of_a_group_is_that_of_all_its_topics() -> None:
    history = History()
    history.add(NOW_MS - 15_000, {lag_key("g", "a"): 5.0})
    history.add(NOW_MS, {lag_key("g", "a"): 4.0, lag_key("g", "b"): 3.0, lag_key("h", "a"): 9.0})
    keys = [lag_key("g", "a"), lag_key("g", "b"), lag_key("g", "not read yet")]
    (line,) = lag_plot(history, keys, NOW_MS).lines
    assert (line.latest, line.most) == ("7.0", "7.0")
    assert lag_plot(history, [], NOW_MS).is_empty


def test_the_plots_of_a_cluster_without_samples_are_empty() -> None:
    assert all(each.is_empty for each in cluster_plots(History(), NOW_MS))
