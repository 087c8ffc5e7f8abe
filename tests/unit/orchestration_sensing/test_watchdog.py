"""Which ticks of a sensor are worth an alert."""

from orchestration.sensing.watchdog import HUNG_AFTER_S, TickSeen, decide_sensor_alert

FINE = TickSeen(tick_id=1, started_s=0.0)


def failed(tick_id: int) -> TickSeen:
    return TickSeen(tick_id=tick_id, started_s=float(tick_id), is_failed=True, why="no such table")


def test_failures_in_a_row_are_told_ever_more_rarely() -> None:
    told = []
    for count in range(1, 10):
        ticks = [failed(count - position) for position in range(count)] + [FINE]
        alert = decide_sensor_alert("new_records", ticks, 100.0)
        told += [] if alert is None else [(count, alert.failures, alert.run_id)]
    assert told == [(count, count, f"tick {count}") for count in (1, 2, 4, 8)]


def test_a_sensor_that_works_again_is_quiet() -> None:
    assert decide_sensor_alert("new_records", [FINE, failed(2), failed(1)], 100.0) is None
    assert decide_sensor_alert("new_records", [], 100.0) is None


def test_a_tick_that_does_not_end_is_told() -> None:
    running = TickSeen(tick_id=7, started_s=10.0, is_running=True)
    assert decide_sensor_alert("new_records", [running, FINE], 10.0 + HUNG_AFTER_S) is None
    alert = decide_sensor_alert("new_records", [running, FINE], 11.0 + HUNG_AFTER_S)
    assert alert is not None
    assert alert.text == "sensor new_records failed: its tick has not ended after 181 s; a restart of the code server ends it (run tick 7)"
