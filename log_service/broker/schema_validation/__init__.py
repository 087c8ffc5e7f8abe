"""Refuses records whose schema is not registered under a subject of their topic.

``records`` finds the schemas that a batch names. This room says which of them count, and asks a
schema registry about those that it does not know.

- ``subjects``: the subjects of a topic, by the topic's strategy. ``record_names``: the names of the
  records in a schema.
- ``verdicts``: the schemas that the registry accepts or refuses, remembered for a while.
  ``topic_verdicts``: the verdicts on the schemas of one topic, for the check of a batch.
- ``registry``: the registry as this room sees it. ``http_registry``: one that speaks Confluent's
  REST API. It is imported only if a URL is set.
- ``validation``: asks, within bounds on time and number. ``checked_appends``: appends batches whose
  schemas are all known, at once.
"""
