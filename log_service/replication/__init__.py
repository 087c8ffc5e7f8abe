"""Partitions as a broker serves them: leader state, in-sync replicas, high watermark, and the requests that wait for it."""
