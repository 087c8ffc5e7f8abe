"""DuckDB marts that answer the example's questions.

A mart is rebuilt whenever a table that it reads has changed.
"""

from orchestration import mart

arrival_delay_by_carrier_and_hour = mart(
    "arrival_delay_by_carrier_and_hour",
    sql="""
        SELECT
            f.carrier,
            any_value(a.name) AS airline,
            f.hour,
            count(*) AS flights,
            count(f.arr_delay) AS arrived,
            round(avg(f.arr_delay), 1) AS mean_arrival_delay_minutes,
            round(quantile_cont(f.arr_delay, 0.9), 1) AS p90_arrival_delay_minutes,
            round(100 * avg((f.arr_delay <= 15)::INT), 1) AS on_time_percent
        FROM flights_with_weather AS f
        LEFT JOIN airlines AS a USING (carrier)
        GROUP BY f.carrier, f.hour
        ORDER BY f.carrier, f.hour
    """,
    tables=("flights_with_weather", "airlines"),
    description=(
        "How late flights arrive, by carrier and scheduled hour of departure (local time); minutes,"
        " early arrivals are negative"
    ),
)
delay_by_visibility_and_wind = mart(
    "delay_by_visibility_and_wind",
    sql="""
        SELECT
            CASE WHEN visib < 1 THEN 'below 1 mile' WHEN visib < 5 THEN '1 to 5 miles' WHEN visib < 10 THEN '5 to 10 miles'
                 ELSE '10 miles' END AS visibility,
            CASE WHEN wind_speed < 10 THEN 'light' WHEN wind_speed < 20 THEN 'moderate' ELSE 'strong' END AS wind,
            count(*) AS flights,
            round(avg(dep_delay), 1) AS mean_departure_delay_minutes,
            round(100 * avg(is_cancelled::INT), 2) AS cancelled_percent
        FROM flights_with_weather
        WHERE visib IS NOT NULL AND wind_speed IS NOT NULL
        GROUP BY visibility, wind
        ORDER BY mean_departure_delay_minutes DESC
    """,
    tables=("flights_with_weather",),
    description="What sight and wind do to departures",
)
traffic_by_destination = mart(
    "traffic_by_destination",
    sql="""
        SELECT
            f.dest,
            any_value(a.name) AS airport,
            count(*) AS flights,
            count(DISTINCT f.carrier) AS carriers,
            any_value(f.distance) AS distance_miles,
            sum(f.seats) AS seats_known,
            round(avg(f.arr_delay), 1) AS mean_arrival_delay_minutes
        FROM flights_with_weather AS f
        LEFT JOIN airports AS a ON a.faa = f.dest
        GROUP BY f.dest
        ORDER BY flights DESC, f.dest
    """,
    tables=("flights_with_weather", "airports"),
    description="Where flights from New York go",
)
