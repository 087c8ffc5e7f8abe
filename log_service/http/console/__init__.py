"""The web console: pages on which people see and change a cluster with their own rights.

The server renders the pages. The cluster's ACLs decide what a person sees and may do, because each
request acts with the person's own login. Every page has a URL, and shows the ``tidelog`` commands
that do the same.

The rooms, from the bottom up:

- ``addresses``: paths of pages and command lines. ``forms``: fields and their checks.
  ``browser_rules``: headers, cookies and origins. ``audit``: a log line for each change.
- ``sessions``: people who are logged in. ``rendering``: templates. ``assets``: styles and scripts,
  whose files are in ``static``. ``templates``: the templates that all areas share.
- ``flow``: the edges that an area contributes to the page Flow. ``history``: the last hour of the
  cluster, from the metrics pages of its nodes.
- ``page_requests``: a person's request. ``previews``: changes before they happen. ``areas``: the
  parts of the console, also those of other packages.
- ``session_middleware``: session, origin, token, failures. ``login``: the pages to log in and out.
- ``pages``: the pages, a folder for each area.
- ``settings``: the settings of a console. ``service``: a console.

htmx (0BSD) and uPlot (MIT) are part of ``static``, with their licences. No page
makes a browser load anything from another host.
"""
