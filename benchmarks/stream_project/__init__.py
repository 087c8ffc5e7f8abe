"""A small project that the benchmarks install.

It has one topic of 100-byte JSON records, and one table that follows it, without checks of its own.
"""
