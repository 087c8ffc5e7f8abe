"""The demo's data: real rows as typed JSON, missing values as null, keys where the topic has one."""

import json
from itertools import islice

import pytest

from assets.topics import AIRLINES, FLIGHTS, PLANES, WEATHER
from orchestration.demo.directory import DemoError
from orchestration.demo.source import DataSet, data_sets
from orchestration.topics.spec import TopicSpec


def data_set(spec: TopicSpec, limit: int | None = None) -> DataSet:
    return next(one for one in data_sets([spec], limit))


def test_a_flight_is_typed_by_the_schema_of_its_topic() -> None:
    first = next(data_set(FLIGHTS).records())
    assert first.key == b"N14228"
    assert json.loads(first.value) == {
        "year": 2013, "month": 1, "day": 1, "dep_time": 517, "sched_dep_time": 515, "dep_delay": 2, "arr_time": 830, "sched_arr_time": 819,
        "arr_delay": 11, "carrier": "UA", "flight": 1545, "tailnum": "N14228", "origin": "EWR", "dest": "IAH", "air_time": 227,
        "distance": 1400, "hour": 5, "minute": 15, "time_hour": "2013-01-01T10:00:00Z",
    }  # fmt: skip


def test_what_was_not_recorded_is_null_and_a_null_key_is_none() -> None:
    without_plane = next(record for record in data_set(FLIGHTS).records() if record.key is None)
    flight = json.loads(without_plane.value)
    assert flight["tailnum"] is None
    assert flight["dep_time"] is None
    plane = json.loads(next(data_set(PLANES).records()).value)
    assert (plane["seats"], plane["speed"]) == (55, None)


def test_weather_keeps_fractions() -> None:
    hour = json.loads(next(data_set(WEATHER).records()).value)
    assert (hour["temp"], hour["wind_gust"], hour["precip"], hour["wind_dir"]) == (
        39.02,
        None,
        0.0,
        270,
    )


def test_a_limit_takes_the_first_flights_only() -> None:
    chosen = {one.topic: one for one in data_sets([FLIGHTS, AIRLINES], 3)}
    assert chosen["flights"].count() == 3 == len(list(chosen["flights"].records()))
    assert chosen["airlines"].count() == 16 == len(list(chosen["airlines"].records()))


def test_small_topics_come_first() -> None:
    assert [one.topic for one in data_sets([FLIGHTS, WEATHER, AIRLINES], None)] == [
        "airlines",
        "weather",
        "flights",
    ]


def test_counting_agrees_with_the_records() -> None:
    planes = data_set(PLANES)
    assert planes.count() == sum(1 for _ in islice(planes.records(), None)) == 3_322


def test_a_topic_without_data_is_named() -> None:
    with pytest.raises(
        DemoError, match="no data for the topics orders: the demo runs the example project"
    ):
        data_sets([AIRLINES, TopicSpec(name="orders")], None)


def test_a_schema_of_other_fields_is_refused() -> None:
    other = data_set(TopicSpec(name="airlines", schema="carrier STRING, title STRING"))
    with pytest.raises(
        DemoError, match="declares the fields carrier, title, and its data has carrier, name"
    ):
        next(other.records())
