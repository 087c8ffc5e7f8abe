"""The endpoints of the registry, under Confluent's paths, statuses and error codes.

- ``bodies``: requests' bodies and parameters, and the JSON of responses.
- ``names``: which subject, scope or version a request is about.
- ``subjects``, ``schemas``, ``compatibility``, ``scopes``, ``about``: the handlers.
- ``routes``: the table of all routes.
"""
