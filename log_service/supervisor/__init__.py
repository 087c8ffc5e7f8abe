"""Starts, watches, restarts and stops the processes of one tidelog installation.

- ``spec``: a component, and the values that all components receive (values only).
- ``guard``: a small process around each component, so that nothing outlives the supervisor, however
  that ends.
- ``readiness``: when a component counts as ready. ``grpc_call``: the bytes of a call of gRPC, by
  which some are asked.
- ``process``: one component's process: started behind its guard, watched, stopped within a
  deadline.
- ``supervisor``: all of them: order of starting, restarts with backoff, order of stopping.
- ``complaints``: what a component says to be wrong.
- ``state``: the file from which ``tidelog status`` reads what runs.
- ``nodes``: several brokers on one machine, each with its properties file. ``fleet``: one more or
  one less while they run.
- ``control``: how another process asks a running supervisor for that. ``installation``: the nodes,
  to such a process.
- ``components``: the broker's component, and those that installed extras register.
  ``console_component``: the web console's.
- ``protection``: the files of a secured installation. ``authority``: its certificates. ``grants``:
  the rights of the platform in it.
"""
