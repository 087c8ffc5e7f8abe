"""Produce, for all kinds of producers.

- ``produce``: the handler. ``plain``: batches without a transaction. ``transactional``: the others.
- ``repeated``: requests that name a partition twice.
"""
