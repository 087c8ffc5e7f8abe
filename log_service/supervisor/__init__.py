"""Starts, watches, restarts and stops the processes of one tidelog installation.

- ``spec``: a component, and the settings that all components receive, as plain values.
- ``guard``: a small process around each component. The component ends with the supervisor, however
  the supervisor ends.
- ``readiness``: decides when a component counts as ready. ``grpc_call``: the bytes of the gRPC call
  that probes some components.
- ``process``: starts one component's process with its guard, watches it, and stops it within a
  deadline.
- ``supervisor``: starts all components in order, restarts them with backoff, and stops them.
- ``complaints``: the problems that a component reports about itself.
- ``state``: the file from which ``tidelog status`` reads what runs.
- ``nodes``: several brokers on one machine, each with its properties file. ``fleet``: adds and
  removes brokers while the others run.
- ``control``: requests of another process to a running supervisor, such as one more broker.
  ``installation``: the nodes, as such a process sees them.
- ``components``: the broker's component, and those that installed extras register.
  ``console_component``: the web console's.
- ``protection``: the files of a secured installation. ``authority``: the authority that issues
  its certificates. ``grants``: the ACLs of the platform.
"""
