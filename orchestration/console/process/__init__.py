"""The processes that know the platform's facts for the console.

- ``main``: reads requests, one JSON object a line, and writes a response for each.
- ``project``: the project and its settings. ``tables``: tables and their commits. ``letters``:
  dead letters. ``questions``: SQL. ``changes``: fixes and replays, as the commands do them.
"""
