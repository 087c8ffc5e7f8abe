"""The metrics that clients push to their broker (KIP-714).

``subscriptions`` says which client pushes what, ``instances`` when a client may ask and push,
``otlp`` reads what was pushed, and ``series`` keeps the newest values for the metrics page.

Plain decisions: nothing here reads a clock, waits or touches a connection. Everything is bounded:
clients, series, labels and bytes.
"""
