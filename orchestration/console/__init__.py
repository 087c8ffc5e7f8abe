"""The platform's pages in the web console: tables, SQL and dead letters.

The console's process imports no Dagster, DuckDB or Arrow for them. Processes of the platform know
the facts. They are started at first use and end when nothing asks them. The entry point
``tidelog.console`` names ``area.area``.

The rooms, from the bottom up:

- ``values``: the facts on tables. ``edges``: the flow between topics, tables and marts.
"""
