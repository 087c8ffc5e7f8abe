"""Tables of joined topics: a ``DataFrame -> DataFrame`` function over pairs of records that are near to each other in time.

``declarations`` holds what is declared, ``run`` and ``replay`` are runs without Dagster, ``assets`` and ``history`` what Dagster is told,
``decorator`` what users write, ``pairs`` what their function is given and returns.
``orchestration.joins`` decides what is joined, and ``orchestration.join_state`` keeps what waits for a partner.
"""
