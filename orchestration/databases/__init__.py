"""SQL databases: how they are reached, and what they can hold.

- ``urls``: URLs without their secrets. ``types``: columns and values. ``deadlines``: limits of each driver.
- ``owners``: which asset may write a table.
"""
