# tidelog: the commands of this repository. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Packages have to have the hashes of locks/, which `make lock` writes. What builds them comes first, and tidelog itself, which has no hash,
# last. uv installs the same in a third of the time, where it is on the PATH. pip knows settings that uv does not, such as those of pip.conf.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation
UV_INSTALL := $(if $(shell command -v uv 2>/dev/null),uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation)
locked = $(1) --require-hashes --requirement locks/build.txt && $(1) --require-hashes $(LOCKS:%=--requirement locks/%.txt) && $(1) --editable .
INSTALL = $(if $(UV_INSTALL),{ $(call locked,$(UV_INSTALL)); } || ){ $(call locked,$(PIP_INSTALL)); }
COMPILE := uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --constraint constraints.txt
# Packages that a lock has everywhere: those with a condition may be needed where it does not hold.
left_out = $$(sed -n 's/^\([^ =]*\)==[^ ]* \\$$/--no-emit-package=\1/p' $(1))
# What unit tests of the log service use of the platform's packages.
LIGHT := numpy pyarrow zstandard
PYTEST := $(BIN)/python -m pytest
# Many tests wait for processes, sessions and timers: three at a time keep two cores busy.
WORKERS ?= 3
SEEDS ?= 0-99
SEED ?= 1
MINUTES ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo up status docs test test-rest test-all lint check unit format sim fuzz chaos kill-loop copy-loop bench bench-peers bench-platform generate kafka-libs sbom lock clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "tidelog needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: LOCKS := platform
$(VENV)/installed: pyproject.toml $(wildcard locks/*.txt) | $(BIN)/python
	@echo "installing tidelog with its platform into $(VENV) (once; about 500 MB)"
	$(INSTALL)
	@touch $@

$(VENV)/installed-dev: LOCKS := platform dev
$(VENV)/installed-dev: pyproject.toml $(wildcard locks/*.txt) | $(BIN)/python
	@echo "installing tidelog with its platform and the tools for tests and checks into $(VENV) (once; about 500 MB)"
	$(INSTALL)
	@touch $(VENV)/installed $@

$(VENV)/installed-light: LOCKS := dev light
$(VENV)/installed-light: pyproject.toml $(wildcard locks/*.txt) | $(BIN)/python
	@echo "installing tidelog without its platform, and the tools for tests, into $(VENV) (once)"
	$(INSTALL)
	@touch $@

$(VENV)/installed-docs: LOCKS := docs
$(VENV)/installed-docs: $(VENV)/installed
	@echo "installing the generator of the site"
	$(INSTALL)
	@touch $@

demo: $(VENV)/installed  ## the whole path on real data, from an empty directory to an answered question
	$(BIN)/tidelog demo

up: $(VENV)/installed  ## broker, Spark, Dagster webserver and daemon; Ctrl-C stops them in order
	$(BIN)/tidelog up

status: $(VENV)/installed  ## what runs
	$(BIN)/tidelog status

docs: $(VENV)/installed-docs  ## the documentation as a site that can be searched, without a network; then open site/index.html
	$(BIN)/zensical build --strict --clean

test: $(VENV)/installed-dev  ## the tests of every room, less than ten minutes on two cores
	-$(BIN)/python -m tests.helpers.java_archives
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "not slow" $(if $(CPU),--cpu) tests

test-rest: $(VENV)/installed-dev  ## the tests that `make test` leaves out: more seeds, kills, products and pages
	-$(BIN)/python -m tests.helpers.java_archives
	$(PYTEST) -n $(WORKERS) --dist worksteal -m slow $(if $(CPU),--cpu) tests

test-all: $(VENV)/installed-dev  ## all tests; WHOLE=1 for a long run, CPU=1 for a table of what they cost
	-$(BIN)/python -m tests.helpers.java_archives
	$(PYTEST) -n $(WORKERS) --dist worksteal $(if $(CPU),--cpu) tests

lint: $(VENV)/installed-dev  ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint  ## what lint does, and unit tests and some seeds of the simulations
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "not slow" tests/test_house.py tests/unit tests/sim

unit: $(VENV)/installed-dev  ## unit tests alone
	$(PYTEST) -n $(WORKERS) --dist worksteal tests/unit

format: $(VENV)/installed-dev  ## format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

sim: $(VENV)/installed-dev  ## simulated nodes through faults; SEEDS=0-99, or SEEDS=7 TRACE=1 for one again; NODES=3 for clusters; AIM="copy loop"
	$(BIN)/python -m tests.sim.$(if $(NODES)$(AIM),cluster_runs --nodes $(or $(NODES),3) $(if $(AIM),--aim "$(AIM)"),node_runs) --seeds $(SEEDS) $(if $(TRACE),--trace)

fuzz: $(VENV)/installed-dev  ## hostile bytes at decoders, node, client, process and controller; MINUTES=2 SEED=1
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --seed $(SEED)

chaos: $(VENV)/installed-dev  ## kill -9 of a loaded node, full and failing disks, files that vanish; KILLS=200 SEED=1; NODES=3 or 5 for faults of a cluster
	$(BIN)/python -m tests.chaos --nodes $(or $(NODES),1) --kills $(or $(KILLS),200) --seed $(SEED)

kill-loop: $(VENV)/installed-dev  ## kill -9 of an installation's processes, then of runs of every sink, source and shape; KILLS=50 SEED=1
	KILLS=$(or $(KILLS),50) SEED=$(SEED) WHOLE=1 $(PYTEST) -n 0 --timeout 7200 tests/platform/test_kill_loop.py
	ROUNDS=$(or $(KILLS),50) SEED=$(SEED) WHOLE=1 $(PYTEST) -n 0 tests/platform/test_random_kills.py

copy-loop: $(VENV)/installed-dev  ## consume, transform and produce exactly once while brokers are killed with kill -9; KILLS=100 SEED=1
	COPY_BOUNCES=$(or $(KILLS),100) COPY_SEED=$(SEED) $(PYTEST) -n 0 -s tests/integration/test_copy_loop.py -k "tidelog"

bench-peers: kafka-libs $(VENV)/installed-dev  ## the node beside Apache Kafka, our client beside confluent-kafka: ratios and goals; NODES=3 for clusters
	$(BIN)/python -m benchmarks$(if $(NODES),.cluster_peers --nodes $(NODES), --peers --only node)

bench-platform: $(VENV)/installed-dev  ## the path from a topic to a table, and what an idle installation costs; about 16 minutes
	$(BIN)/python -m benchmarks --only platform --rounds 2

sbom: $(VENV)/installed  ## which packages are installed, with their licences, as CycloneDX: build/sbom.cdx.json
	@mkdir -p build
	$(BIN)/python -m tools.sbom > build/sbom.cdx.json

lock:  ## write the hashes of locks/ anew for the versions of constraints.txt (needs uv)
	printf '%s\n' editables hatchling setuptools wheel | $(COMPILE) --python-version 3.11 --output-file locks/build.txt -
	$(COMPILE) --python-version 3.11 --extra platform --extra demo --output-file locks/platform.txt pyproject.toml
	$(COMPILE) --python-version 3.11 --extra platform --extra demo --extra dev $(call left_out,locks/platform.txt) --output-file locks/dev.txt pyproject.toml
	printf '%s\n' $(LIGHT) | $(COMPILE) --python-version 3.11 --extra dev $(call left_out,locks/dev.txt) --output-file locks/light.txt pyproject.toml -
	$(COMPILE) --python-version 3.11.5 --extra platform --extra demo --extra docs $(call left_out,locks/platform.txt) --output-file locks/docs.txt pyproject.toml
	echo uv | $(COMPILE) --python-version 3.11 --output-file .ci/uv.txt -

generate: $(VENV)/installed-dev  ## write the message modules anew from their schemas
	$(BIN)/python tools/generate_messages.py

bench: $(VENV)/installed-dev  ## every figure in one table
	$(BIN)/python -m benchmarks

kafka-libs:  ## jars of Apache Kafka and of other schema registries, for the tests that compare with these (needs java and mvn); then export TIDELOG_KAFKA_LIBS with the whole path of .kafka/libs
	mvn --quiet --batch-mode --file tests/apache_kafka/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.kafka/libs -DincludeScope=runtime
	mvn --quiet --batch-mode --file tests/apache_kafka/streams_tests.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.kafka/test-libs -DincludeClassifiers=test
	-mvn --quiet --batch-mode --file tests/apache_avro/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.kafka/avro-libs -DincludeScope=runtime
	-mvn --quiet --batch-mode --file tests/everit_json_schema/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.kafka/json-schema-libs -DincludeScope=runtime
	-mvn --quiet --batch-mode --file tests/wire_schema/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.kafka/wire-libs -DincludeScope=runtime
	-mvn --quiet --batch-mode --file tests/apache_flink/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.kafka/flink-libs -DincludeScope=runtime

clean:  ## remove caches and builds; data and the virtual environment stay
	rm -rf build dist site .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
