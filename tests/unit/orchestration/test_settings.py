"""Settings: complete by default, read from what is handed in, refused by name."""

import re
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy.engine import make_url

from log_service.cli.up import PORT_SETTINGS, START_TIMEOUT_SETTING
from log_service.common.installation_names import SERVERS_SETTING, SPARK_REMOTE_SETTING
from log_service.config.client_properties import FILE_VARIABLE, PREFIX
from log_service.config.client_security import SECURITY_SETTINGS
from orchestration.databases.urls import may_hold_secret, shown_url
from orchestration.resources import DatabaseResource
from orchestration.settings import SettingsError, load_settings, registry_settings
from orchestration.sources.sql_rows import SqlRows
from orchestration.transforms.declarations import mirror_group


def test_every_setting_has_a_default_and_all_state_lies_under_one_directory() -> None:
    settings = load_settings({})
    base = Path.cwd() / ".tidelog"
    assert settings.bootstrap_servers == "127.0.0.1:9092"
    assert settings.lake_root == base / "lake"
    assert settings.warehouse_directory == base / "warehouse"
    assert settings.sql_url.reveal() == f"sqlite:///{base}/reference.db"
    assert settings.java_directory == base / "java"
    assert settings.spark_remote is None
    assert (settings.minimum_interval_s, settings.follow_s) == (5, 300)


def test_variables_win_and_the_data_directory_moves_what_is_not_named() -> None:
    settings = load_settings(
        {
            "TIDELOG_DATA": "/srv/t",
            "TIDELOG_LAKE": "/lake",
            "TIDELOG_RECORDS_PER_RUN": "10",
            "TIDELOG_MINIMUM_INTERVAL_S": "0",
        }
    )
    assert settings.lake_root == Path("/lake")
    assert settings.warehouse_directory == Path("/srv/t/warehouse")
    assert (settings.records_per_run, settings.minimum_interval_s) == (10, 0)


def test_empty_variables_are_the_default() -> None:
    assert load_settings(
        {"TIDELOG_RECORDS_PER_RUN": "", "TIDELOG_SPARK_REMOTE": ""}
    ) == load_settings({})


def test_the_broker_is_the_one_whose_port_the_project_says() -> None:
    """A command beside an installation that was stopped asked whatever listened on the default
    port.
    """
    assert load_settings({}).bootstrap_servers == "127.0.0.1:9092"
    assert load_settings({"TIDELOG_BROKER_PORT": "19492"}).bootstrap_servers == "127.0.0.1:19492"
    assert load_settings({"TIDELOG_BROKER_PORT": "0"}).bootstrap_servers == "127.0.0.1:9092"
    named = {"TIDELOG_BROKER_PORT": "19492", "TIDELOG_BOOTSTRAP_SERVERS": "kafka:9092"}
    assert load_settings(named).bootstrap_servers == "kafka:9092"


@pytest.mark.parametrize("value", ["many", "0", "-3", "1.5"])
def test_a_value_that_cannot_be_used_names_its_variable(value: str) -> None:
    with pytest.raises(
        SettingsError,
        match=f"TIDELOG_RECORDS_PER_RUN is '{value}': it has to be a whole number, at least 1",
    ):
        load_settings({"TIDELOG_RECORDS_PER_RUN": value})


@pytest.mark.parametrize("value", ["0", "101", "85 %"])
def test_a_share_of_a_disk_is_a_percentage(value: str) -> None:
    with pytest.raises(
        SettingsError,
        match=r"TIDELOG_DISK_FULL_PERCENT is .*: it has to be a whole number, 1 to 100",
    ):
        load_settings({"TIDELOG_DISK_FULL_PERCENT": value})


def test_the_documentation_names_every_setting_and_no_other() -> None:
    root = Path(__file__).parents[3]
    read = set(re.findall(r'"(TIDELOG_[A-Z_]+)"', (root / "orchestration/settings.py").read_text()))
    told = set(
        re.findall(
            r"^\| `(TIDELOG_[A-Z_]+)`", (root / "docs/settings.md").read_text(), re.MULTILINE
        )
    )
    # One row stands for all variables of security.
    of_clients = {
        FILE_VARIABLE,
        f"{PREFIX}{SECURITY_SETTINGS[0].upper()}",
    }
    shared = {SERVERS_SETTING, SPARK_REMOTE_SETTING, START_TIMEOUT_SETTING, *PORT_SETTINGS}
    assert told == read | of_clients | shared


def test_deployments_on_one_cluster_have_groups_of_their_own() -> None:
    assert mirror_group("orders", load_settings({}).deployment) == "tidelog.orders"
    assert (
        mirror_group("orders", load_settings({"TIDELOG_DEPLOYMENT": "staging"}).deployment)
        == "tidelog.staging.orders"
    )
    with pytest.raises(SettingsError, match="TIDELOG_DEPLOYMENT is 'a b'"):
        load_settings({"TIDELOG_DEPLOYMENT": "a b"})


def test_one_setting_puts_postgresql_in_the_place_of_sqlite() -> None:
    settings = load_settings({"TIDELOG_POSTGRES_URL": "postgresql://me:secret@db/shop"})
    assert settings.postgres_url is not None
    assert settings.postgres_url.reveal() == "postgresql://me:secret@db/shop"
    assert settings.sql_url.reveal() == "postgresql+psycopg://me:secret@db/shop"
    other = load_settings(
        {"TIDELOG_POSTGRES_URL": "postgresql://db/shop", "TIDELOG_SQL_URL": "sqlite:///x.db"}
    )
    assert other.sql_url.reveal() == "sqlite:///x.db"
    with pytest.raises(SettingsError, match="has to begin with postgresql://") as refused:
        load_settings({"TIDELOG_POSTGRES_URL": "mysql://me:secret@db/shop"})
    assert "secret" not in str(refused.value)


def test_settings_show_no_password() -> None:
    urls = {
        "TIDELOG_POSTGRES_URL": "postgresql://me:planted@db/shop",
        "TIDELOG_SQL_URL": "mysql://me:planted@db/shop",
    }
    assert "planted" not in repr(load_settings(urls))
    assert "planted" not in f"{load_settings(urls)}"
    assert "planted" not in repr(SqlRows(url=urls["TIDELOG_SQL_URL"], table="people", key=("id",)))


@pytest.mark.parametrize(
    "url", ["postgresql://me:planted@db/shop", "postgresql://me@db/shop?password=planted"]
)
def test_a_password_in_the_configuration_of_a_resource_is_refused(url: str) -> None:
    """Dagster shows the configuration of resources on its pages."""
    resource = DatabaseResource(url=url)
    assert "planted" not in repr(resource)
    with pytest.raises(SettingsError, match="put the URL into an environment variable") as refused:
        dg.Definitions(resources={"database": resource}).get_repository_def()
    assert "planted" not in str(refused.value)


def test_a_resource_takes_a_password_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DATABASE", "sqlite:///:memory:?password=planted")
    found: list[str] = []

    @dg.asset
    def probe(database: DatabaseResource) -> None:
        found.append(f"{database.url}")
        assert "planted" not in repr(database)

    resource = DatabaseResource(url=dg.EnvVar("SHOP_DATABASE"))
    with dg.DagsterInstance.ephemeral() as instance:
        assert dg.materialize([probe], resources={"database": resource}, instance=instance).success
    assert found == ["sqlite:///:memory:?password=planted"]
    assert DatabaseResource(url="postgresql://me@db/shop").get_resource_definition() is not None


def test_a_url_is_shown_without_its_secrets() -> None:
    url = make_url(
        "postgresql://me:planted@db/shop?sslpassword=planted&sslmode=require&connect_timeout=5"
    )
    assert (
        shown_url(url)
        == "postgresql://me:***@db/shop?connect_timeout=5&sslmode=require&sslpassword=hidden"
    )
    assert shown_url(make_url("sqlite:///x.db")) == "sqlite:///x.db"


@pytest.mark.parametrize(
    "option",
    [
        *(
            "token",
            "access_token",
            "passcode",
            "private_key_passphrase",
            "client_secret",
            "PWD",
            "odbc_connect",
            "ODBC_Connect",
        ),
        *(
            "credentials_base64",
            "credentials_info",
            "api_key",
            "apikey",
            "private_key",
            "auth",
            "sas",
            "options",
            "init_command",
            "x",
        ),
    ],
)
def test_no_option_is_shown_that_is_not_known_to_be_harmless(option: str) -> None:
    text = f"mssql+pyodbc://me@db/shop?{option}=DRIVER%3Dx%3B+Pwd+%3Dplanted&{option}=planted&Encrypt=yes"
    assert may_hold_secret(text)
    assert "planted" not in shown_url(make_url(text))
    assert "Encrypt=yes" in shown_url(make_url(text))


def test_a_resource_says_which_option_may_be_a_secret() -> None:
    with pytest.raises(
        SettingsError, match="holds the option api_key, which may be a secret"
    ) as caught:
        DatabaseResource(
            url="postgresql://me@db/shop?sslmode=require&api_key=planted"
        ).get_resource_definition()
    assert "planted" not in str(caught.value)
    assert (
        DatabaseResource(url="postgresql://me@db/shop?sslmode=require").get_resource_definition()
        is not None
    )


def test_a_connection_string_of_odbc_without_a_password_may_be_named() -> None:
    assert not may_hold_secret(
        "mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3BTrusted_Connection%3Dyes"
    )


def test_a_registry_client_has_its_settings_from_variables() -> None:
    """By default it is the registry that ``tidelog up`` starts."""
    assert registry_settings({}) == ("http://127.0.0.1:8081", {})
    assert registry_settings({"TIDELOG_REGISTRY_PORT": "9081"}) == ("http://127.0.0.1:9081", {})
    given = {
        "URL": "https://schemas:443",
        "BASIC_AUTH_USER_INFO": "ann:secret",
        "TIMEOUT": "3",
        "PROXY": "",
    }
    found = registry_settings(
        {f"TIDELOG_SCHEMA_REGISTRY_{name}": text for name, text in given.items()}
    )
    assert found == ("https://schemas:443", {"basic_auth_user_info": "ann:secret", "timeout": 3})
    with pytest.raises(SettingsError, match="TIDELOG_SCHEMA_REGISTRY_TIMEOUT is 'long'"):
        registry_settings({"TIDELOG_SCHEMA_REGISTRY_TIMEOUT": "long"})
