"""Joins the metrics pages of all nodes into one sample of the cluster. Values in, values out.

A rate is the growth of a count per second. A count that went back belongs to a restarted node, and
adds nothing. A duration is that of the slowest node, because quantiles of several nodes cannot be
added.
"""

from collections.abc import Mapping

from log_service.common.types import TopicPartition
from log_service.http.console.history.history import SeriesKey
from log_service.http.console.history.metrics_page import NodeFigures

Pages = Mapping[str, NodeFigures]
"""The figures of the nodes that could be read, by the address of the page."""


def sample_of(before: Pages, now: Pages, interval_s: float) -> dict[SeriesKey, float]:
    """Return the values of one moment. Rates are measured from the earlier pages ``before``.

    A node without an earlier page has no rates.
    """
    return {**_rates(before, now, interval_s), **_times(now), **_lags(now)}


def _rates(before: Pages, now: Pages, interval_s: float) -> dict[SeriesKey, float]:
    found: dict[SeriesKey, float] = {}
    for url, figures in now.items():
        then = before.get(url)
        for name, value in figures.totals.items():
            if then is not None and name in then.totals and interval_s > 0:
                grown = max(0.0, value - then.totals[name]) / interval_s
                found[name,] = found.get((name,), 0.0) + grown
    return found


def producer_rates(
    before: Pages, now: Pages, interval_s: float
) -> dict[tuple[str, str], float | None]:
    """Return the records per second of each client id and topic.

    A rate is None if no node that counts the pair has an earlier page. A pair that the earlier page
    did not have is counted from 0.
    """
    found: dict[tuple[str, str], float | None] = {}
    for url, figures in now.items():
        then = before.get(url)
        for pair, value in figures.produced.items():
            rate = found.setdefault(pair, None)
            if then is not None and interval_s > 0:
                grown = max(0.0, value - then.produced.get(pair, 0.0)) / interval_s
                found[pair] = (rate or 0.0) + grown
    return found


def _times(now: Pages) -> dict[SeriesKey, float]:
    found: dict[SeriesKey, float] = {}
    for figures in now.values():
        for key, value in figures.times_ms.items():
            found[key] = max(found.get(key, 0.0), value)
    return found


def _lags(now: Pages) -> dict[SeriesKey, float]:
    """Return the lag of each group in each topic.

    A lag is left out if the end offset of a partition with a commit is unknown.
    """
    ends: dict[TopicPartition, float] = {}
    for figures in now.values():
        for where, end in figures.ends.items():
            ends[where] = max(ends.get(where, 0.0), end)
    found: dict[SeriesKey, float] = {}
    unknown: set[SeriesKey] = set()
    for figures in now.values():
        for (group, where), offset in figures.committed.items():
            key = lag_key(group, where.topic)
            if where in ends:
                found[key] = found.get(key, 0.0) + max(0.0, ends[where] - offset)
            else:
                unknown.add(key)
    return {key: value for key, value in found.items() if key not in unknown}


def lag_key(group: str, topic: str) -> SeriesKey:
    """Return the name of the series of a group's lag in a topic."""
    return "lag", group, topic
