"""Outbound requests over the simulated network: channels, connections, versions, pauses."""
