"""Holds the cluster's metadata as an immutable image. A delta leads to the next image, and the
loader replays the log into both.

- ``image``: what is known at one offset of the metadata log: brokers, topics, configurations,
  features, access, producer ids.
- ``access``: the values of ACLs, SCRAM credentials, delegation tokens and client quotas;
  ``access_records``: these values as records.
- ``partition``: one partition's replicas, in-sync replicas, leader and epochs.
- ``delta``: changes gathered record by record; ``topics_delta``: those of topics and partitions.
- ``features``: feature levels that this software can keep.
- ``observers``: which brokers' replicas copy everything and are not in sync.
- ``snapshot``: an image as records.
- ``loader``: committed batches in, images out to publishers.
- ``errors``: the error of a log that cannot be replayed.
"""
