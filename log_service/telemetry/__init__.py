"""The metrics that clients push to their broker (KIP-714).

``subscriptions`` decides which client pushes which metrics, ``instances`` when a client may ask and
push, ``otlp`` reads pushed metrics, and ``series`` keeps the newest values for the metrics page.

Nothing here reads a clock, waits or touches a connection. Everything is bounded:
clients, series, labels and bytes.
"""
