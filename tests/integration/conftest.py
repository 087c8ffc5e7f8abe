"""Fixtures give integration tests their brokers.

All tests of a worker share one process, or a test has its own that it may kill.

The tests of clients hold on any cluster: ``TIDELOG_TEST_BOOTSTRAP=host:port pytest
tests/integration`` runs them against that one (Apache Kafka, say, with
``group.initial.rebalance.delay.ms=0`` and ``group.min.session.timeout.ms=500``), and leaves out
those that need a tidelog process.
"""

import gc
import os
import re
import secrets
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.helpers.broker_process import BrokerProcess
from tests.helpers.java_archives import KAFKA_LIBS
from tests.helpers.whole import IS_WHOLE
from tests.integration import confluent, stories
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG, ClusterPool, cluster, tidelog
from tests.integration.differential import RECORD, Cluster, Clusters, Duel, Recording
from tests.integration.wire import Wire

BOOTSTRAP_VARIABLE = "TIDELOG_TEST_BOOTSTRAP"
RECORDED, KAFKA = "recorded", "apache-kafka"

PROPERTIES = {"group.min.session.timeout.ms": "500"}
"""What the tests need beside ``broker_process.DEFAULTS``: members that die are noticed within a
test's patience.
"""

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401 - reads its schemas in a deprecated way while it is imported, which must not fail a test


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here uses real sockets."""
    here = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a cluster that all tests of this worker share.

    Tests name their topics and groups apart.
    """
    elsewhere = os.environ.get(BOOTSTRAP_VARIABLE)
    if elsewhere:
        yield elsewhere
        return
    with BrokerProcess(tmp_path_factory.mktemp("broker"), properties=PROPERTIES) as running:
        yield running.bootstrap


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of tidelog that the tests of a module mirror from, or to; ``there`` is the other
    one.
    """
    with tidelog(tmp_path_factory.mktemp("here")) as servers:
        yield servers


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The other cluster of ``here``."""
    with tidelog(tmp_path_factory.mktemp("there")) as servers:
        yield servers


@pytest.fixture
def refused_sockets() -> Iterator[None]:
    """Collect the sockets that kafka-python leaves open after a refusal by a node.

    Their warnings would fail another test.

    A module that takes nodes away from kafka-python uses this fixture and the mark
    ``filterwarnings("ignore::ResourceWarning")``.
    """
    yield
    gc.collect()


@pytest.fixture
def tidelog_bootstrap(bootstrap: str) -> str:
    """The shared cluster, for tests of what only tidelog does."""
    skip_elsewhere()
    return bootstrap


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker process of this test's own, that can be killed and started again."""
    skip_elsewhere()
    with BrokerProcess(tmp_path, properties=PROPERTIES) as running:
        yield running


@pytest.fixture
def wire(bootstrap: str) -> Iterator[Wire]:
    """A connection to the shared cluster without a client library."""
    with Wire(bootstrap) as opened:
        yield opened


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test has, for a topic or a group."""
    told = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")
    return f"{told[:60]}-{secrets.token_hex(4)}"


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    """A new topic with one partition."""
    confluent.create_topic(bootstrap, name)
    return name


@pytest.fixture
def new_topic(bootstrap: str, name: str) -> Callable[..., str]:
    """Create another topic: ``new_topic(partitions=3, cleanup_policy="compact")`` returns its name."""
    count = 0

    def create(partitions: int = 1, **configs: str) -> str:
        nonlocal count
        count += 1
        confluent.create_topic(bootstrap, f"{name}-{count}", partitions, **configs)
        return f"{name}-{count}"

    return create


@pytest.fixture(scope="package")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    """Yield the clusters that modules share.

    They end with the last integration test, before a simulation begins in the same process.
    """
    with ExitStack() as stack:
        yield ClusterPool(stack, tmp_path_factory.mktemp)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Name for each module the other side of its comparison.

    It is Apache Kafka, its recorded responses, or both, of which one skips.
    """
    if "clusters" not in metafunc.fixturenames:
        return
    if KAFKA_LIBS not in os.environ:
        sides = [RECORDED, KAFKA]
    else:
        is_kafka_asked = (
            IS_WHOLE
            or RECORD in os.environ
            or not stories.is_recorded_of_today(Path(metafunc.module.__file__))
        )
        sides = [KAFKA] if is_kafka_asked else [RECORDED]
    metafunc.parametrize("clusters", sides, indirect=True, scope="module")


@pytest.fixture(scope="module")
def clusters(
    request: pytest.FixtureRequest, pool: ClusterPool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clusters]:
    """Yield tidelog, and Apache Kafka or its recorded responses, without topics.

    A module with ``PROPERTIES`` gets clusters of its own.

    ``FEATURES`` are feature levels of Apache Kafka's node, beside ``PROPERTIES``.
    """
    own, features = (
        getattr(request.module, "PROPERTIES", None),
        getattr(request.module, "FEATURES", None),
    )
    with ExitStack() as stack:

        def opened(name: str) -> Cluster:
            address = (
                pool.emptied(name)
                if own is None
                else stack.enter_context(
                    cluster(name, tmp_path_factory.mktemp("own"), own, features)
                )
            )
            return Cluster(bootstrap=address, wire=stack.enter_context(Wire(address)))

        kafka = opened(APACHE_KAFKA) if request.param == KAFKA else None
        yield Clusters(tidelog=opened(TIDELOG), kafka=kafka)


@pytest.fixture(scope="module")
def _kept_story(clusters: Clusters, request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep the story of a module that was recorded as a whole, and passed."""
    failed, config = request.session.testsfailed, request.config
    yield
    has_chosen = (
        config.option.keyword
        or config.option.markexpr
        or any("::" in argument for argument in config.args)
    )
    is_whole = (
        not has_chosen
        and "PYTEST_XDIST_WORKER" not in os.environ
        and request.session.testsfailed == failed
    )
    if RECORD in os.environ and clusters.kafka is not None and is_whole:
        stories.keep_story(request.path)


@pytest.fixture
def duel(clusters: Clusters, _kept_story: None, request: pytest.FixtureRequest) -> Iterator[Duel]:
    """The same questions to both sides; see ``differential``."""
    case = (
        request.node.name.replace(KAFKA, "")
        .replace(RECORDED, "")
        .replace("[]", "")
        .replace("[-", "[")
        .replace("-]", "]")
    )
    opened = Duel(clusters, Recording(request.module.__name__.rpartition(".")[2]), case)
    yield opened
    opened.finish()


def skip_elsewhere() -> None:
    """Skip a test that needs a tidelog process where another cluster is tested."""
    if os.environ.get(BOOTSTRAP_VARIABLE):
        pytest.skip(
            f"needs a tidelog process of its own; {BOOTSTRAP_VARIABLE} names another cluster"
        )
