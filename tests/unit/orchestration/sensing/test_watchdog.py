"""Some ticks of a sensor are worth an alert."""

from collections.abc import Iterable

from orchestration.sensing.watchdog import (
    HUNG_AFTER_S,
    REMEMBERED_TICKS,
    TickSeen,
    decide_sensor_alert,
)

FINE = TickSeen(tick_id=0, started_s=0.0)


def failed(tick_id: int) -> TickSeen:
    return TickSeen(tick_id=tick_id, started_s=float(tick_id), is_failed=True, why="no such table")


def told_counts(looks: Iterable[int]) -> list[tuple[int, str]]:
    """Return the counts of failures that are told, with their words.

    A reader looks after so many failures in a row.
    """
    told, alerts = "", []
    for count in looks:
        ticks = [
            *(failed(number) for number in range(count, max(count - REMEMBERED_TICKS, 0), -1)),
            FINE,
        ][:REMEMBERED_TICKS]
        alert = decide_sensor_alert("new_records", ticks, 100.0, told)
        if alert is not None:
            told = alert.run_id
            assert told == f"tick {count}"
            alerts.append((count, alert.text.partition(":")[0].removeprefix("sensor new_records ")))
    return alerts


def test_failures_in_a_row_are_told_ever_more_rarely() -> None:
    told = told_counts([*range(1, 130), *range(250, 258), *range(510, 514), *range(1_022, 1_026)])
    assert [count for count, _ in told] == [
        2**power for power in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    ]


def test_a_sensor_that_goes_on_failing_is_told_again_after_as_many_failures_as_are_looked_at() -> (
    None
):
    told = told_counts(
        [1_000, 1_023, 1_024, 1_025, 1_026, 2_048, 2_049, 2_050, 3_073, 3_074, 3_075]
    )
    assert [count for count, _ in told] == [1_000, 1_024, 2_049, 3_074]
    assert [words for _, words in told[1:3]] == [
        "failed 1024 times in a row",
        "failed at least 1025 times in a row",
    ]


def test_failures_between_two_looks_are_told_by_the_second() -> None:
    """A sensor ticks every second or every five, and the watchdog looks twice a minute."""
    told = told_counts(range(3, 140, 6))
    assert [count for count, _ in told] == [3, 9, 21, 33, 69, 129]
    assert told[1] == (9, "failed 9 times in a row")


def test_failures_after_an_older_alert_are_told_from_the_first_on() -> None:
    ticks = [failed(9), FINE, failed(7)]
    alert = decide_sensor_alert("new_records", ticks, 100.0, "tick 7")
    assert alert is not None
    assert alert.failures == 1


def test_a_sensor_that_works_again_is_quiet() -> None:
    assert decide_sensor_alert("new_records", [FINE, failed(2), failed(1)], 100.0) is None
    assert decide_sensor_alert("new_records", [], 100.0) is None


def test_a_tick_that_does_not_end_is_told() -> None:
    running = TickSeen(tick_id=7, started_s=10.0, is_running=True)
    assert decide_sensor_alert("new_records", [running, FINE], 10.0 + HUNG_AFTER_S) is None
    alert = decide_sensor_alert("new_records", [running, FINE], 11.0 + HUNG_AFTER_S)
    assert alert is not None
    assert (
        alert.text
        == "sensor new_records failed: its tick has not ended after 181 s; a restart of the code server ends it (run tick 7)"
    )


def test_a_tick_that_goes_on_hides_no_failure_before_it() -> None:
    running = TickSeen(tick_id=7, started_s=10.0, is_running=True)
    alert = decide_sensor_alert("new_records", [running, failed(6), failed(5), FINE], 11.0)
    assert alert is not None
    assert (alert.run_id, alert.text) == (
        "tick 6",
        "sensor new_records failed 2 times in a row: no such table (run tick 6)",
    )
    assert (
        decide_sensor_alert("new_records", [running, failed(6), failed(5), FINE], 11.0, "tick 6")
        is None
    )
    assert decide_sensor_alert("new_records", [running, FINE, failed(5)], 11.0) is None
    assert decide_sensor_alert("new_records", [running], 11.0) is None
    hung = decide_sensor_alert("new_records", [running, failed(6)], 11.0 + HUNG_AFTER_S, "tick 6")
    assert hung is not None
    assert hung.run_id == "tick 7"
