"""The last hour of a cluster, from the metrics pages of its nodes.

- ``metrics_page``: reads the figures of one page. ``rates``: joins the pages of all nodes.
- ``history``: keeps the samples in bounded memory. ``sampler``: takes them at a bounded pace.
- ``plots``: turns samples into lines of a picture.
"""
