"""Tests of record batches.

There are golden vectors, round trips, other people's readers and writers, and hostile bytes.
"""
