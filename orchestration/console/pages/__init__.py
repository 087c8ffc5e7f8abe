"""The requests of the platform's pages.

- ``jobs``: work that takes long, with its stop. ``tables``: the list and one table. ``questions``:
  SQL. ``letters``: dead letters, their fixes and replays.
"""
