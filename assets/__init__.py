"""The example project's assets: a year of flights from New York, as topics, clean tables, a joined table, marts and reference tables.

Declarations only; how they run is ``orchestration``'s. ``topics`` says what records look like, ``pipelines`` turns them into clean tables
and joins them, ``marts`` answers questions, ``reference`` carries small tables to a SQL database, ``maintenance`` keeps it all tidy.
"""
