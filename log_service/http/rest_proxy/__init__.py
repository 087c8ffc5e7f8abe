"""The REST proxy: produce, consume and administer over HTTP, as Confluent's REST proxy does.

A request acts at the cluster as its own user, with the cluster's ACLs. The cluster may also be
Apache Kafka. The rooms, from the bottom up:

- ``settings``: the settings of a proxy. ``errors``: refusals with their codes.
- ``bodies``: JSON of requests and responses. ``streams``: how many streams are open, and their end.
- ``context``: the clients and links of a request.
- ``formats``: keys and values as JSON, in the formats without schemas. ``schemas``: the formats
  with schemas.
- ``cluster_reading``: looks up topics and offsets for all versions. ``producing``: sends records.
- ``json_stream``: cuts a stream into JSON objects. ``record_stream``: writes them as records, and
  sends a line of the response for each.
- ``v1``: our own version: streams of records, writes with an idempotency key, and queues.
- ``v2``: produce, metadata, and consumer instances.
- ``v3``: administration, and produce as a stream.
- ``openapi``: the description of all routes. ``openapi_schemas``: the JSON of its parts.
- ``metrics``: the figures of a proxy.
- ``routes``: the table of all routes. ``service``: a proxy.

Sources: Confluent's REST API, versions 2 and 3.
"""
