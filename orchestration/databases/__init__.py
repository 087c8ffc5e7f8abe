"""SQL databases: their URLs, their types, their time limits and the owners of their tables.

- ``urls``: URLs without their secrets. ``types``: columns and values. ``deadlines``: time limits,
  set in each driver's way.
- ``owners``: the asset that may write a table. ``refusals``: SQLAlchemy's errors as a sentence.
"""
