"""Requests and responses as plain dataclasses, one generated module per API.

Two modules belong to no API: ``headers`` has the headers of requests and responses, and
``consumer_protocol`` has the subscriptions and assignments inside JoinGroup and SyncGroup. All are
written by ``python -m tools.generate_messages``. A module is imported when it is first used.
"""
