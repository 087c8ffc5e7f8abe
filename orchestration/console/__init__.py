"""The platform's pages in the web console: tables, SQL and dead letters.

The console's process has to stay small, so it imports no Dagster, DuckDB or Arrow. Child processes
that import the platform look up what a page shows. They are started at first use and end when idle.
The entry point ``tidelog.console`` names ``area.area``.

The modules, from the bottom up:

- ``values``: the facts on tables. ``commits``: offset ranges and pace of commits.
- ``process``: the code of the processes that look the facts up.
- ``worker``: the console's handle on such a process. ``jobs``: work that takes long. ``rights``:
  who may see, query and change tables.
- ``platform``: the project's folder with all of these. ``pages``: the requests. ``flow``: the part
  of the page Flow.
- ``area``: the routes.
"""
