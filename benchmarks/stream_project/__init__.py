"""A small project that the benchmarks install: one topic of 100-byte JSON records, one table that follows it, without checks of its own."""
