"""The infrastructure of pipelines as Dagster shows it.

- ``cluster``: the cluster's health, and jobs that operate it. ``mirrors``: the lag of each flow of
  a mirror.
- ``queues``: the depth of a share group's queue.
"""
