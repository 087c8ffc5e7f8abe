"""Names that the command line, the supervisor and the platform share.

The platform imports them from here, so that a setting or a prefix has one spelling.
"""

SERVERS_SETTING = "TIDELOG_BOOTSTRAP_SERVERS"
"""The environment variable that names the brokers."""
SPARK_REMOTE_SETTING = "TIDELOG_SPARK_REMOTE"
"""The environment variable that names a Spark Connect server of the user's own."""
DEFAULT_SPARK_PORT = 15_002
MIRROR_FILE = "mirror.properties"
"""The file of a project that declares its mirror."""
TABLE_GROUP_PREFIX = "tidelog."
"""The prefix of groups that mirror the offsets of the platform's tables."""
TRANSFORM_GROUP_PREFIX = "tidelog-topic."
"""The prefix of groups that hold the offsets of transforms to topics."""
PLATFORM_GROUP_PREFIXES = (TABLE_GROUP_PREFIX, TRANSFORM_GROUP_PREFIX)
