"""The metrics that clients push to their broker (KIP-714).

``subscriptions`` decides which client pushes which metrics. ``instances`` decides when a client may
request its subscription, and when it may push. ``otlp`` decodes pushed metrics, and ``series``
keeps the newest values for the metrics page.

Nothing here reads a clock, waits or touches a connection. The numbers of clients, series, labels
and bytes are bounded.
"""
