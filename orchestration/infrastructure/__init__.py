"""The infrastructure of pipelines as Dagster shows it.

- ``cluster``: the cluster's health, and jobs that operate it. ``mirrors``: how far each flow of a mirror is behind.
- ``queues``: how deep a share group's queue is.
"""
