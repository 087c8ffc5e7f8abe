"""The cluster's metadata: an immutable image, the delta that leads to the next one, and the loader that replays the log into both.

- ``image``: what is known at one offset of the metadata log: brokers, topics, configurations, features, producer ids.
- ``delta``: changes gathered record by record, then one copy of what they touched.
- ``partition``: one partition's replicas, in-sync replicas, leader and epochs.
- ``features``: feature levels that this software can keep.
- ``snapshot``: an image as records.
- ``loader``: committed batches in, images out to publishers.
"""
