"""Produce, for all kinds of producers.

- ``produce``: the behaviour of the API, and the parts that both handlers share.
- ``plain``: requests without a transactional id. ``transactional``: requests with one.
- ``checks``: the check of a batch that takes longer than a turn, or waits for a schema registry.
- ``repeated``: a cache of decoded requests.
"""
