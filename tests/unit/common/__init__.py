"""Tests of the small parts that every room shares."""
