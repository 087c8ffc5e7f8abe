"""From topic to topic: a ``DataFrame -> DataFrame`` function whose rows are records of another topic, exactly once.

``declarations`` holds what is declared, ``outgoing`` makes records of rows, ``progress`` decides where a run goes on, ``ledger`` is the
lake's account of what was sent, ``run`` is a run without Dagster, ``replay`` one of its dead letters; ``assets`` and ``history``
are what Dagster is told, ``decorator`` what users write.
"""
