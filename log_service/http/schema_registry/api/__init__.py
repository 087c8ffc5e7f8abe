"""The endpoints of the registry, under Confluent's paths, statuses and error codes.

- ``json_bodies``: reads the bodies of requests. ``bodies``: parameters, and the JSON of responses.
- ``lists``: long lists, made and sent in turns.
- ``names``: which subject, scope or version a request is about.
- ``preparation``: the long work of a decision, one schema at a time before it.
- ``subjects``, ``schemas``, ``compatibility``, ``scopes``, ``about``: the handlers.
- ``routes``: the table of all routes.
"""
