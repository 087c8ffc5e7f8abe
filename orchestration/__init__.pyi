from .rows.aggregates import (
    Aggregate as Aggregate,
    AggregateError as AggregateError,
    count as count,
    largest as largest,
    smallest as smallest,
    total as total,
)
from .transforms.archiving import Archive as Archive, archive_table as archive_table
from .transforms.archiving.assets import (
    ArchiveConfig as ArchiveConfig,
    archive_asset as archive_asset,
)
from .calls.ask import IncompleteAnswerWarning as IncompleteAnswerWarning, ask as ask
from .assembly import assemble as assemble
from .infrastructure.cluster import (
    cluster_asset as cluster_asset,
    cluster_jobs as cluster_jobs,
    cluster_sensor as cluster_sensor,
)
from .components import (
    MartComponent as MartComponent,
    SqlTransformComponent as SqlTransformComponent,
    TopicComponent as TopicComponent,
)
from .dead_letters.table import DeadLetters as DeadLetters
from .definitions import defs as defs
from .formats import (
    IncompatibleSchemaError as IncompatibleSchemaError,
    RegistryAwayError as RegistryAwayError,
    RegistryError as RegistryError,
    RegistrySchemaError as RegistrySchemaError,
    SchemaFileError as SchemaFileError,
    UnknownSchemaError as UnknownSchemaError,
    avro_schema as avro_schema,
    from_registry as from_registry,
    protobuf_schema as protobuf_schema,
)
from .retained.lag_objective import decide_keeps_up as decide_keeps_up
from .maintenance import (
    Limits as Limits,
    compaction_asset as compaction_asset,
    history_asset as history_asset,
    is_maintenance as is_maintenance,
    lake_asset as lake_asset,
    retention_asset as retention_asset,
    standard_maintenance as standard_maintenance,
)
from .marts.mart import mart as mart, mart_key as mart_key
from .infrastructure.mirrors import mirror_assets as mirror_assets, mirror_sensor as mirror_sensor
from .quality import (
    Expectation as Expectation,
    Rule as Rule,
    Severity as Severity,
    Suite as Suite,
    expect as expect,
    fail as fail,
    quarantine as quarantine,
    warn as warn,
)
from .infrastructure.queues import (
    QueueSpec as QueueSpec,
    queue_asset as queue_asset,
    queue_sensor as queue_sensor,
)
from .calls.replay import replay as replay
from .resources import (
    DatabaseResource as DatabaseResource,
    LakeResource as LakeResource,
    LogServiceResource as LogServiceResource,
    SparkResource as SparkResource,
    WarehouseResource as WarehouseResource,
    default_resources as default_resources,
)
from .maintenance.schedules import (
    HOURLY as HOURLY,
    NIGHTLY as NIGHTLY,
    asset_schedule as asset_schedule,
)
from .sensing import (
    Alert as Alert,
    GroupLag as GroupLag,
    Progress as Progress,
    TableState as TableState,
    automation_sensor as automation_sensor,
    decide_alert as decide_alert,
    decide_drift as decide_drift,
    decide_events as decide_events,
    decide_groups as decide_groups,
    decide_looks as decide_looks,
    decide_runs as decide_runs,
    decide_sensor_alert as decide_sensor_alert,
    group_sensor as group_sensor,
    lag_objective as lag_objective,
    run_failure_alerts as run_failure_alerts,
    schema_drift_sensor as schema_drift_sensor,
    send_alert as send_alert,
    source_sensor as source_sensor,
    standard_sensors as standard_sensors,
    topic_sensor as topic_sensor,
    watchdog_sensor as watchdog_sensor,
)
from .settings import (
    Settings as Settings,
    SettingsError as SettingsError,
    load_settings as load_settings,
)
from .sources import (
    folder_source as folder_source,
    source_feeds as source_feeds,
    sql_source as sql_source,
)
from .spark.session import close_session as close_session, open_session as open_session
from .marts.database_copy import SqlError as SqlError, sql_table as sql_table
from .lake.tables import Lake as Lake, TableSnapshot as TableSnapshot
from .topics.spec import TopicSpec as TopicSpec, topic_asset as topic_asset
from .transforms import (
    DatabaseTableConfig as DatabaseTableConfig,
    DerivedTable as DerivedTable,
    DerivedTableConfig as DerivedTableConfig,
    JoinedTableConfig as JoinedTableConfig,
    NotReadyError as NotReadyError,
    ReplayRangeConfig as ReplayRangeConfig,
    TopicFeed as TopicFeed,
    TopicTable as TopicTable,
    TopicTableConfig as TopicTableConfig,
    TopicTransformConfig as TopicTransformConfig,
    TransformError as TransformError,
    is_announced as is_announced,
    on_fresh_inputs as on_fresh_inputs,
    pool_of as pool_of,
    spark_aggregate as spark_aggregate,
    spark_duckdb_table as spark_duckdb_table,
    spark_join as spark_join,
    spark_sql_table as spark_sql_table,
    spark_table as spark_table,
    spark_topic as spark_topic,
    table_key as table_key,
    topic_feeds as topic_feeds,
)
from .transforms.replay.steps import Replayed as Replayed, ReplayRefusedError as ReplayRefusedError
from .warehouse.store import (
    MartBuild as MartBuild,
    Warehouse as Warehouse,
    WarehouseError as WarehouseError,
)
