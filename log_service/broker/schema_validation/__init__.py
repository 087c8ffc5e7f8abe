"""Refuses records whose schema is not registered under a subject of their topic.

``records`` finds the schemas that a batch names. This room decides which of them are accepted, and
asks a schema registry about those that it does not know.

- ``subjects``: the subjects of a topic, by the topic's strategy. ``record_names``: the names of the
  records in a schema.
- ``decisions``: the schemas that the registry accepts or refuses, remembered for a while.
  ``topic_decisions``: the decisions on the schemas of one topic, for the check of a batch.
- ``registry``: the registry as this room sees it. ``http_registry``: one that speaks Confluent's
  REST API. It is imported only if a URL is set.
- ``validation``: sends requests to the registry, with limits on their time and number.
  ``checked_appends``: appends a batch at once if all of its schemas are known.
"""
