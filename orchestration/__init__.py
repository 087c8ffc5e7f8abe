"""The library for pipelines: topics, transforms, tables, checks and marts as Dagster assets.

A project imports names from here and from no inner module: ``from orchestration import TopicSpec,
topic_asset, spark_table``. The stub beside this file lists them. They are loaded when they are
first used.

A package imports only from packages that come before it in this list:

- ``values``: the meaning of a record's value. ``offsets``: ranges of offsets, and the plan of a
  run. ``project``: the folder with a user's declarations. ``settings``: all settings.
- ``lake``: Delta tables that hold their own progress. ``log_client``: the log service as the
  platform sees it. ``formats``: Avro and Protobuf. ``quality``: rules and expectations.
- ``databases``: SQL databases. ``retained``: the records of a topic that its log or its archive
  still holds. ``dead_letters``: rejected records, their fixes and replays. ``spark``: Spark's Java,
  sessions and server.
- ``rows``: decides with DuckDB how the rows of a batch change a table. ``warehouse``: marts, and
  queries over tables, marts and topics.
- ``resources``: the resources of assets. ``topics``: topics as assets.
- ``transforms``: functions over DataFrames become tables, topics or tables of a database.
  ``sources``: rows and files become records.
- ``sensing``: sensors that start runs and report trouble. ``maintenance``: the upkeep of lake and
  topics. ``marts``: results for other readers. ``calls``: Python calls without Dagster.
- ``assembly``: a project's Definitions. ``components``: declarations in YAML. ``infrastructure``:
  cluster, mirrors and queues in the UI.
- ``definitions``: the Definitions of the project in the current folder.
- ``installation``: the processes that ``tidelog up`` starts. ``cli``: commands about tables.
  ``demo``: the whole path on real data. ``__main__``: starts a process of the installation.
- ``console``: the pages on tables in the web console.
"""


def __getattr__(name: str) -> object:
    """Load a public name, or ``__all__``."""
    _attach()
    return globals()[name] if name == "__all__" else globals()["__getattr__"](name)


def __dir__() -> list[str]:
    """Return the public names."""
    _attach()
    return list(globals()["__dir__"]())


def _attach() -> None:
    """Replace ``__getattr__`` and ``__dir__`` of this package by those of ``lazy_loader``.

    It reads the public names in the stub. It needs Python's compiler modules, so it is imported at
    the first use of a name. A process that imports only an inner module does not load them.
    """
    from lazy_loader import attach_stub  # noqa: PLC0415 - for the first use of a name

    loaded = attach_stub(__name__, __file__)
    globals().update(zip(("__getattr__", "__dir__", "__all__"), loaded, strict=True))
