"""Access to Dagster's UI.

- ``guard``: requests that a page of another site makes. ``login``: the login page.
- ``sessions``: users who have logged in. ``users``: the cluster's passwords and rights.
"""
