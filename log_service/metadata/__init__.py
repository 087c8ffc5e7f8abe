"""Holds the cluster's metadata as an immutable image, which deltas change.

A delta leads from one image to the next. The loader replays the metadata log into deltas.

- ``image``: the metadata at one offset of the log: brokers, topics, configurations, features,
  access, producer ids.
- ``access``: the values of ACLs, SCRAM credentials, delegation tokens and client quotas;
  ``access_records``: these values as records.
- ``partition``: one partition's replicas, in-sync replicas, leader and epochs.
- ``delta``: changes gathered record by record. ``topics_delta``: changes of topics and partitions.
- ``features``: the feature levels that this software supports.
- ``observers``: brokers whose replicas copy everything and never join the ISR.
- ``snapshot``: converts an image to records.
- ``loader``: replays committed batches, and passes images to publishers.
- ``errors``: the error of a log that cannot be replayed.
"""
