"""Tests: unit mirrors the tree, integration uses real sockets, sim is the simulated world."""
