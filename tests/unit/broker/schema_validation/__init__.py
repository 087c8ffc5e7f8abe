"""Tests of the room that validates schemas."""
