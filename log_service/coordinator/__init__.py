"""Coordinators: state machines over a partition of an internal topic, and the runtime that drives them."""
