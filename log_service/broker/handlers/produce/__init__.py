"""Produce, for all kinds of producers.

- ``produce``: the behaviour of the API, and the parts that both handlers share.
- ``plain``: requests without a transactional id. ``transactional``: requests with one.
- ``repeated``: a cache of decoded requests.
"""
