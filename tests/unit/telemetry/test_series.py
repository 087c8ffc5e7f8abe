"""The newest values of what clients pushed."""

from uuid import UUID

from log_service.telemetry.otlp import Point, Pushed
from log_service.telemetry.series import PushedSeries, are_counts

ONE, TWO = UUID(int=1), UUID(int=2)


def take(
    series: PushedSeries, client: UUID, *points: Point, now_ms: int = 0, left_out: int = 0
) -> None:
    series.take(client, f"client-{client.int}", Pushed(points, left_out), now_ms, 1_000)


def gauge(name: str, value: float, **labels: str) -> Point:
    return Point(name, tuple(labels.items()), value, False, False)


def growth(name: str, value: float) -> Point:
    return Point(name, (), value, True, True)


def values(series: PushedSeries, now_ms: int = 0) -> dict[tuple[str, int], list[float]]:
    series.forget_silent(now_ms)
    return {
        (name, client): [each.value.value for each in shown if each.instance_id.int == client]
        for name, shown in series.by_name()
        for client in {each.instance_id.int for each in shown}
    }


def test_a_gauge_is_the_newest_value_and_growth_adds_up() -> None:
    series = PushedSeries()
    take(series, ONE, gauge("g", 5), growth("c", 2))
    take(series, ONE, gauge("g", 4), growth("c", 3))
    take(series, TWO, growth("c", 10))
    assert values(series) == {("g", 1): [4.0], ("c", 1): [5.0], ("c", 2): [10.0]}
    by_name = dict(series.by_name())
    assert are_counts(by_name["c"])
    assert not are_counts(by_name["g"])
    assert by_name["c"][0].client_id == "client-1"


def test_labels_make_series_of_their_own() -> None:
    series = PushedSeries()
    take(series, ONE, gauge("g", 1, topic="a"), gauge("g", 2, topic="b"))
    assert len(series) == 2


def test_a_silent_client_is_forgotten_and_makes_room() -> None:
    series = PushedSeries(max_series=2)
    take(series, ONE, gauge("a", 1), gauge("b", 1), gauge("c", 1))
    assert (len(series), series.left_out_count) == (2, 1)
    take(series, TWO, gauge("a", 1), now_ms=999, left_out=4)
    assert (series.client_count, series.left_out_count) == (1, 6)
    take(series, TWO, gauge("a", 1), now_ms=1_000)
    assert values(series, 1_000) == {("a", 2): [1.0]}
    assert values(series, 2_000) == {}
    assert (len(series), series.client_count, series.push_count) == (0, 0, 3)


def test_one_client_cannot_take_all_the_room() -> None:
    series = PushedSeries(max_series=100, max_series_of_client=3)
    take(series, ONE, *(gauge(f"m{number}", 1) for number in range(50)))
    take(series, TWO, gauge("a", 1))
    assert (len(series), series.left_out_count) == (4, 47)


def test_a_client_has_its_name_up_to_a_length() -> None:
    series = PushedSeries()
    series.take(ONE, "c" * 32_000, Pushed((gauge("g", 1.0),), 0), 0, 1_000)
    assert [len(each.client_id) for _, shown in series.by_name() for each in shown] == [256]
