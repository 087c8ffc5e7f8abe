"""Tables of joined topics: a function over pairs of records that are near in time.

- ``declarations``: the declaration of a join. ``decorator``: ``@spark_join``, which users write.
- ``run``, ``replay``: runs without Dagster.
- ``assets``, ``history``: the asset and the replay job in Dagster. ``events``: the events of both.
- ``kind``: implements the protocol of ``transforms.kinds``.
- ``pairs``: the input and the result of the function.

``rows.joins`` decides which records are joined, and ``rows.join_state`` keeps rows that wait for a
partner.
"""
