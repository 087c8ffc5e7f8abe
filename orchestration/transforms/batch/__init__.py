"""The path of a batch from records to rows.

- ``intake``, ``reading``: records are read and checked. ``parsing``, ``variants``: values become
  columns.
- ``batch``: the transform is computed. ``projection``: transforms that Arrow computes.
- ``isolation``: records on which the transform throws. ``deletions``: rows that a batch removes.
- ``checking``: expectations of the rows. ``results``: rows of a table from tables.
"""
