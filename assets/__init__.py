"""The example project's assets: topics, tables, marts and reference tables about flights.

The data is a year of flights from New York. Files here only declare assets, and ``orchestration``
runs them. ``topics`` declares the records' schemas. ``pipelines`` turns records into clean tables
and joins them. ``marts`` answers questions. ``reference`` copies small tables to a SQL database.
``maintenance`` removes old data.
"""
