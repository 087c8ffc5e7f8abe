"""Counters of a node, and the text format in which Prometheus reads them.

The package uses no sockets, clocks or files.

- ``latency``: durations in fixed buckets, and their quantiles over the last minutes.
- ``rate``: how fast a count grew over the last minutes.
- ``failure_counts``: failed logins and handshakes, by address.
- ``request_meter``: the number of requests of one API, by version, and how long they took.
- ``exposition``: families of samples as Prometheus's text format, in chunks of bounded size.
- ``http_page``: reads the head of an HTTP/1.1 request for a page of text, and writes the head of
  the response.

Measuring a request costs two readings of the caller's clock, one search in a tuple and a few
additions of integers. Everything else is computed when the page is read.
"""
