"""The records of a batch on their way to rows.

- ``intake``, ``reading``: records are read and judged. ``parsing``, ``variants``: values become
  columns.
- ``batch``: the transform is computed. ``projection``: transforms that Arrow computes.
- ``isolation``: records on which the transform throws. ``deletions``: rows that a batch removes.
- ``checking``: expectations of the rows. ``results``: rows of a table from tables.
"""
