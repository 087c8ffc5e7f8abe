"""The endpoints of the registry, under Confluent's paths, statuses and error codes.

- ``json_bodies``: reads the bodies of requests. ``bodies``: parameters, and the JSON of responses.
- ``lists``: builds and sends long lists, while other requests are handled in between.
- ``names``: which subject or scope a request is about.
- ``preparation``: parses and hashes schemas before a decision needs the results.
- ``subjects``, ``schemas``, ``compatibility``, ``scopes``, ``about``: the handlers.
- ``routes``: the table of all routes.
"""
