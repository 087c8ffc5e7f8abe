"""The schema registry: named, versioned schemas with ids, served by Confluent's REST API.

State is the compacted topic ``_schemas`` in Confluent's record format. So a registry of Confluent
or Karapace can take over this topic, and this registry can take over theirs. Every instance reads
the whole topic and serves reads. One instance writes, and the others forward writes to it.

The modules, from the bottom up:

- ``languages``: Avro, JSON Schema and Protobuf. Each parses, prints and compares schemas.
- ``subjects``, ``values``: names, schemas and settings as values. ``entities``: their JSON.
  ``errors``: refusals with their codes. ``rule_checks``: checks the rules of a schema.
- ``records``: the records of the topic. ``state``: the state that they build, with
  ``sorted_names`` of subjects.
- ``parsing``: parses schemas with their references. ``remembered``: its caches of bounded size.
  ``decisions``: decides changes and lookups. ``workers``: the threads in which both compute.
- ``log``: reads and writes the topic. Brokers refuse a writer that another one superseded.
- ``election``: elects the instance that writes. ``forwarding``: sends the writes of others to it.
- ``writer_role``: takes the topic over while this instance is elected.
- ``authorization``: ACLs. ``state_keeper``: applies records. ``registry``: carries out a change.
- ``api``: the endpoints. ``metrics``: the registry's figures. ``settings``: the settings of an
  instance. ``service``: runs an instance.

Sources: Confluent's REST API and record format as of version 8.
"""
