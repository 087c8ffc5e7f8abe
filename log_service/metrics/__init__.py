"""Counters of a node, and the text format in which Prometheus reads them. No sockets, no clocks, no
files.

- ``latency``: durations in fixed buckets, and their quantiles over the last minutes.
- ``rate``: how fast a count grew over the last minutes.
- ``failure_counts``: who failed to log in, or to shake hands, by address.
- ``request_meter``: requests of one API: how many, by version, and how long they took.
- ``exposition``: families of samples as Prometheus's text format, in chunks of bounded size.
- ``http_page``: the little of HTTP/1.1 that a page of text needs: one request's head in, one
  response's head out.

The path of a request pays for two readings of a clock, one search in a tuple and a few plain
integers. Everything else is computed when the page is read.
"""
