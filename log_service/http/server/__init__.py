"""One HTTP/1.1 server (RFC 9112) on trio, for every service of this package.

The rooms, from the bottom up:

- ``values``: requests, responses, and the error that ends a request.
- ``limits``: the bounds and deadlines of a server.
- ``negotiation``: the choice of media types by ``Accept`` and ``Content-Type``.
- ``routes``: the table of a service's routes, and the search in it.
- ``service``: a service as the server sees it.
- ``heads``: h11's events as values, and values as h11's events.
- ``json_bodies``: reads JSON within bounds.
- ``exchange``: one request and its response so far, and the bounds of its body.
- ``received``: the bytes between the task that receives and the task that reads.
- ``state``: the counters that all connections of a server share.
- ``connection``: one connection, its requests in order, and their deadlines.
- ``passwords``: checks of passwords, delays of guesses, and a short memory of right passwords.
- ``authentication``: logins by password, token, certificate, or none.
- ``cluster_logins``: passwords of the cluster's own users. ``cluster_acls``: the cluster's ACLs.
- ``tls``: encryption and certificates, as a broker's listeners have them.
- ``server``: a listener, who may connect, and how it stops.
- ``work_limits``: limits on long work in total and per person.
  ``streams``: responses without a fixed end, made piece by piece.
- ``health``: the routes ``/healthz`` and ``/readyz``.
- ``metrics``: counts and durations by route, and the page of metrics.

The connection code is ours, over h11, for these reasons:

- It uses the project's own network, so simulations, TLS contexts and principals of certificates
  are those of the broker. Hypercorn opens its own sockets, and ASGI hides certificates.
- A request of the registry's size takes about 125 us of CPU, so a core serves about 8,000 a second.
  Hypercorn's worker takes 300 us, and brings six more packages.
- Over httptools it would take about half. But h11 also knows what may be sent when, and how a body
  is framed. With httptools that is our code, and its parser in C reads a stranger's bytes.

The broker's page of metrics stays with ``metrics.http_page``, because a broker starts without h11.
"""
