"""Version 3 of the REST proxy's API: administration, and produce as a stream.

The rooms, from the bottom up:

- ``documents``: links and lists, which every response has, and the cluster of a request.
- ``clusters``: clusters and brokers. ``topics``: topics, partitions, replicas, reassignments.
- ``configs``: configs of topics, brokers and the cluster. ``acls``: ACLs.
- ``groups``: consumer groups, their members and their lag. ``share_groups``: share groups.
- ``parts``: the type and the schema of a key or a value.
- ``records``: one record of a request. ``produce``: records as a stream, and as a batch.
- ``routes``: the table of all routes.
"""
