"""One partition's log on disk in Kafka's own files, and the directories that hold them.

Knows record batches as bytes with a header; knows neither topics' metadata nor replication.
"""
