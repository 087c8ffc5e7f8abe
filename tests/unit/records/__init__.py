"""Tests of record batches: golden vectors, round trips, other people's readers and writers, hostile
bytes.
"""
