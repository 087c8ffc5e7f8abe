"""Transforms of the example: records to clean tables, and clean tables to the joined table.

Tables from topics grow batch by batch and keep each row's topic position. The joined table,
``flights_with_weather``, is computed anew from the latest versions of its inputs, so the order in
which the topics arrive does not matter. The marts read it.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from assets.topics import AIRLINES, AIRPORTS, FLIGHTS, PLANES, WEATHER
from orchestration import Suite, expect, quarantine, spark_table, warn

PROVENANCE = ("_topic_id", "_partition", "_offset")
NEW_YORK = ["EWR", "JFK", "LGA"]
WEATHER_COLUMNS = (
    "temp",
    "dewp",
    "humid",
    "wind_dir",
    "wind_speed",
    "wind_gust",
    "precip",
    "pressure",
    "visib",
)


@spark_table(
    topic=FLIGHTS,
    unique_by=("time_hour", "carrier", "flight"),
    rules=(
        quarantine("distance_is_positive", "distance > 0", "A flight goes somewhere"),
        quarantine(
            "origin_is_in_new_york",
            "origin IN ('EWR', 'JFK', 'LGA')",
            "Only departures from New York belong here",
        ),
        warn(
            "arrived_if_departed",
            "dep_time IS NULL OR arr_time IS NOT NULL",
            "A flight that left and has no arrival was diverted",
        ),
        warn(
            "has_a_tail_number",
            "tailnum IS NOT NULL",
            "Flights without one cannot be joined with planes",
        ),
    ),
    suite=Suite(
        expect("expect_column_values_to_not_be_null", column="carrier", is_blocking=True),
        expect(
            "expect_column_values_to_be_in_set",
            column="origin",
            value_set=NEW_YORK,
            is_blocking=True,
        ),
        expect(
            "expect_column_values_to_be_between", column="distance", min_value=10, max_value=6000
        ),
        expect(
            "expect_column_values_to_be_between", column="arr_delay", min_value=-120, max_value=1500
        ),
    ),
)
def clean_flights(records: DataFrame) -> DataFrame:
    """Departures from New York, typed.

    Delays are in minutes and distance in miles. ``time_hour`` is the scheduled hour of departure in
    UTC.
    """
    return records.select(
        *PROVENANCE,
        "time_hour",
        "carrier",
        "flight",
        "tailnum",
        "origin",
        "dest",
        sql.make_date("year", "month", "day").alias("local_date"),
        "hour",
        "minute",
        "dep_time",
        "sched_dep_time",
        "dep_delay",
        "arr_time",
        "sched_arr_time",
        "arr_delay",
        "air_time",
        "distance",
        sql.col("dep_time").isNull().alias("is_cancelled"),
    )


@spark_table(
    topic=WEATHER,
    unique_by=("origin", "time_hour"),
    rules=(
        quarantine(
            "wind_speed_is_possible",
            "wind_speed < 250",
            "The strongest wind ever measured blew at 253 miles per hour",
        ),
        warn("temperature_was_measured", "temp IS NOT NULL"),
    ),
    suite=Suite(
        expect("expect_column_values_to_be_between", column="humid", min_value=0, max_value=100),
        expect("expect_column_values_to_be_between", column="visib", min_value=0, max_value=10),
        expect("expect_column_values_to_be_between", column="temp", min_value=-30, max_value=120),
    ),
)
def weather(records: DataFrame) -> DataFrame:
    """Hourly weather by airport, one row per airport and hour in UTC.

    Units are degrees Fahrenheit, miles per hour, inches and millibars. Visibility is in miles.
    """
    return records.select(*PROVENANCE, "origin", "time_hour", *WEATHER_COLUMNS)


@spark_table(
    topic=PLANES,
    unique_by=("tailnum",),
    rules=(
        quarantine("seats_are_counted", "seats > 0"),
        warn("year_of_construction_is_known", "year IS NOT NULL"),
    ),
    suite=Suite(
        expect("expect_column_values_to_be_between", column="year", min_value=1930, max_value=2013),
        expect("expect_column_values_to_match_regex", column="tailnum", regex="^N[0-9A-Z]{1,5}$"),
    ),
)
def planes(records: DataFrame) -> DataFrame:
    """Planes by tail number: year of construction, manufacturer, seats, engines.

    Cruising speed is left out, because it is known for few planes only.
    """
    return records.select(
        *PROVENANCE,
        "tailnum",
        "year",
        "type",
        "manufacturer",
        "model",
        "engines",
        "seats",
        "engine",
    )


@spark_table(
    topic=AIRPORTS,
    unique_by=("faa",),
    rules=(
        quarantine("position_is_on_earth", "lat BETWEEN -90 AND 90 AND lon BETWEEN -180 AND 180"),
        warn("time_zone_is_named", "tzone IS NOT NULL"),
    ),
    suite=Suite(
        expect("expect_column_value_lengths_to_equal", column="faa", value=3, is_blocking=True)
    ),
)
def airports(records: DataFrame) -> DataFrame:
    """Airports by FAA code.

    Latitude and longitude are in degrees, altitude in feet. The time zone is given as hours from
    UTC and by name.
    """
    return records.select(*PROVENANCE, "faa", "name", "lat", "lon", "alt", "tz", "dst", "tzone")


@spark_table(
    topic=AIRLINES,
    unique_by=("carrier",),
    suite=Suite(
        expect("expect_column_value_lengths_to_equal", column="carrier", value=2, is_blocking=True)
    ),
)
def airlines(records: DataFrame) -> DataFrame:
    """Carriers by their two-letter code."""
    return records.select(*PROVENANCE, "carrier", sql.trim("name").alias("name"))


@spark_table(
    tables=(clean_flights, weather, planes),
    rules=(
        warn("weather_is_known", "temp IS NOT NULL OR wind_speed IS NOT NULL OR visib IS NOT NULL"),
        warn("plane_is_known", "seats IS NOT NULL"),
    ),
    suite=Suite(
        expect("expect_column_values_to_not_be_null", column="carrier", is_blocking=True),
        expect(
            "expect_column_values_to_be_between",
            column="plane_age",
            min_value=0,
            max_value=80,
            mostly=0.999,
        ),
    ),
)
def flights_with_weather(
    flights: DataFrame, hourly_weather: DataFrame, registry: DataFrame
) -> DataFrame:
    """Each clean flight once, with its weather and its plane if these are known.

    The weather is that of the flight's airport and scheduled hour.
    """
    observed = hourly_weather.select("origin", "time_hour", *WEATHER_COLUMNS)
    registered = registry.select(
        "tailnum",
        sql.col("year").alias("plane_year"),
        "manufacturer",
        "model",
        "engines",
        "seats",
        "engine",
    )
    joined = flights.join(observed, ["origin", "time_hour"], "left").join(
        registered, ["tailnum"], "left"
    )
    return joined.withColumn("plane_age", sql.year("local_date") - sql.col("plane_year"))
