"""From topic to topic: a transform whose rows are records of another topic, exactly once.

The transform is a ``DataFrame -> DataFrame`` function.

- ``declarations``: the declaration of a transform. ``decorator``: the decorator that users write.
- ``outgoing``: makes records of rows.
- ``run``: a run without Dagster. ``replay``: a replay of its dead letters.
- ``assets``, ``history``: the asset and its replay in Dagster. ``events``: the events of both.
- ``kind``: implements the protocol of ``transforms.kinds``.
"""
