"""Small lookup tables for services, copied to a SQL database.

The database is SQLite, unless TIDELOG_SQL_URL names another.
"""

from orchestration import sql_table

airlines_sql = sql_table(
    "airlines", table="airlines", columns=("carrier", "name"), primary_key=("carrier",)
)
airports_sql = sql_table(
    "airports",
    table="airports",
    columns=("faa", "name", "lat", "lon", "alt", "tz", "dst", "tzone"),
    primary_key=("faa",),
)
planes_sql = sql_table(
    "planes",
    table="planes",
    columns=("tailnum", "year", "type", "manufacturer", "model", "engines", "seats", "engine"),
    primary_key=("tailnum",),
)
