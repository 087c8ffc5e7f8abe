"""A mirror in Dagster has an asset for each flow, and a sensor that tells its lag.

It runs between two brokers of the test's own.
"""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from log_service.client import BlockingAdmin, BlockingProducer, ConfigError, NewTopic
from orchestration.infrastructure.mirrors import decide_lags, mirror_assets, mirror_sensor
from orchestration.project.mistakes import mistakes
from orchestration.sensing.progress import REPORT_INTERVAL_S, Reported, read_cursor
from tests.integration.client_clusters import tidelog
from tests.integration.mirrors import mirroring, until, values, write_file


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with (
        tidelog(tmp_path_factory.mktemp("here")) as here,
        tidelog(tmp_path_factory.mktemp("there")) as there,
    ):
        with BlockingAdmin(here) as admin:
            admin.create_topics([NewTopic(name="orders", partition_count=1)])
        yield here, there


def test_the_sensor_tells_how_far_a_mirror_is_behind(
    servers: tuple[str, str], tmp_path: Path
) -> None:
    here, there = servers
    lines = ("home->far-away.enabled = true", "home->far-away.topics = orders")
    file = write_file(tmp_path / "mirror.properties", {"home": here, "far-away": there}, *lines)
    now = [1_000.0]
    (asset,) = mirror_assets(file)
    sensor = mirror_sensor(file, now_s=lambda: now[0])
    assert asset.key == dg.AssetKey(["mirrors", "home_to_far_away"])
    dg.Definitions.validate_loadable(dg.Definitions(assets=[asset], sensors=[sensor]))

    def tick(cursor: str | None) -> dg.SensorResult:
        result = sensor(dg.build_sensor_context(cursor=cursor))
        assert isinstance(result, dg.SensorResult)
        now[0] += REPORT_INTERVAL_S
        return result

    with BlockingProducer(here) as producer:
        producer.send_many("orders", [b"1", b"2", b"3"])
    behind = tick(None)
    (event,) = behind.asset_events
    assert event.asset_key == asset.key
    assert event.metadata["records_behind"].value == 3
    seconds = event.metadata["seconds_behind"].value
    assert isinstance(seconds, float)
    assert seconds > 0
    with mirroring(file):
        until(lambda: len(values(there, "home.orders")) == 3, "all is mirrored")
    (event,) = tick(behind.cursor).asset_events
    assert (event.metadata["records_behind"].value, event.metadata["seconds_behind"].value) == (
        0,
        0.0,
    )


def test_a_flow_that_cannot_be_measured_keeps_no_other_from_its_turn(
    servers: tuple[str, str], tmp_path: Path
) -> None:
    here, there = servers
    lines = (
        "A->B.enabled = true",
        "C->B.enabled = true",
        "topics = orders",
        "C.request.timeout.ms = 500",
        "C.default.api.timeout.ms = 1000",
    )
    file = write_file(
        tmp_path / "mirror.properties", {"A": here, "B": there, "C": "127.0.0.1:1"}, *lines
    )
    result = mirror_sensor(file)(dg.build_sensor_context())
    assert isinstance(result, dg.SensorResult)
    measured, failed = result.asset_events
    assert (measured.asset_key.path[-1], failed.asset_key.path[-1]) == ("A_to_B", "C_to_B")
    assert "the mirror C->B cannot be measured: " in str(failed.metadata["failure"].value)
    assert result.skip_reason is not None
    assert "the mirror C->B cannot be measured" in str(result.skip_reason.skip_message)


def test_a_lag_is_told_when_it_changes_when_it_is_gone_and_every_minute() -> None:
    due, told = decide_lags({"a": 5, "b": 0}, {"b": Reported(value="3 at 1", at_s=100.0)}, 101.0)
    assert due == {"a", "b"}
    assert decide_lags({"a": 6, "b": 0}, told, 102.0)[0] == set(), "a moment later"
    assert decide_lags({"a": 6, "b": 0}, told, 101.0 + REPORT_INTERVAL_S)[0] == {"a"}
    assert decide_lags({"a": 5, "b": 0}, told, 161.0)[0] == {"a"}, "it stands still"


def test_a_flow_that_cannot_be_measured_is_told_at_once_and_once() -> None:
    _, told = decide_lags({"a": 5}, {}, 100.0)
    due, told = decide_lags({}, told, 101.0, {"a": "B does not respond"})
    assert due == {"a"}
    assert decide_lags({}, told, 1_000.0, {"a": "B does not respond"})[0] == set()
    assert decide_lags({"a": 5}, told, 1_001.0)[0] == {"a"}, "it can be measured again"


@pytest.mark.parametrize("cursor", [None, "", "no json", "[]", '{"a": 5}'])
def test_a_cursor_that_makes_no_sense_is_one_that_was_lost(cursor: str | None) -> None:
    assert read_cursor(cursor) == {}


def test_a_file_that_cannot_be_used_is_told_by_an_asset_and_by_each_tick(tmp_path: Path) -> None:
    lines = ("A->B.enabled = true", "A->B.topics = (orders")
    file = write_file(
        tmp_path / "mirror.properties", {"A": "127.0.0.1:1", "B": "127.0.0.1:2"}, *lines
    )
    (asset,) = mirror_assets(file)
    sensor = mirror_sensor(file)
    assert asset.key == dg.AssetKey(["mirrors", "mirror_properties"])
    (mistake,) = mistakes(
        dg.Definitions(assets=[asset], sensors=[sensor])
        .get_repository_def()
        .assets_defs_by_key.values()
    )
    assert str(file) in mistake
    assert "(orders" in mistake
    with pytest.raises(ConfigError, match=r"\(orders"):
        sensor(dg.build_sensor_context())
    file.write_text(file.read_text().replace("(orders", "orders"))
    assert [one.key.path[-1] for one in mirror_assets(file)] == ["A_to_B"]
