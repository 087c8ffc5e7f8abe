"""Runs and replays as Dagster shows them.

- ``assets``: specs of assets. ``events``: numbers, offsets and checks. ``reporting``: reports of a
  run.
- ``replays``: history by day, and the replay job. ``days``: the days of committed records.
- ``dead_letters``: the asset of dead letters.
- ``failures``: errors as failed runs. ``address``: the table's name and storage as metadata.
"""
