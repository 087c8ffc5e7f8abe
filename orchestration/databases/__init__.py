"""SQL databases: their URLs, their types, their limits and the owners of their tables.

- ``urls``: URLs without their secrets. ``types``: columns and values. ``deadlines``: limits of each
  driver.
- ``owners``: the asset that may write a table. ``refusals``: the error of a database.
"""
