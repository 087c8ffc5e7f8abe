"""Configuration: every key declared once (name, type, default, validator, reason), read from Kafka's own server properties.

Code never sees keys: it receives one of the small frozen views of ``config.views``.
"""
