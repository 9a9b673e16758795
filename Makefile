# make run: set up what running needs and start the product (ARGS: options of `conclave up`).
# make lock: choose the newest packages that pyproject.toml allows, for requirements/run.txt and requirements/test.txt.
# make chaos: ten times 90 s of kills, pauses, broken links and voter changes on three real controllers under load, then five times
#   90 s of kills, stops, pauses and full disks of a combined node under producers, commits and topic changes.
# make costs: the most expensive request of every API against a real node (ARGS: names of APIs).
# make screenshots: the pictures of docs/images, of three controllers and three Apache brokers in Chromium.
# make client: the methods and models of conclave.client again, from the routes of the web process.
# make test: set up the rest, check and run every test, three files at a time (TESTS: some of them; WORKERS: 0 for one after the other;
#   SEED: draws the order of the tests, the examples of properties and the order of sets, else the committed tree does,
#   so that the same commit gets the same verdict).
# make slow: the tests that are too long for every run.
# make explore: what `make test` leaves to chance, before a release: properties, simulator and chaos with fresh seeds for
#   MINUTES (20); each failure is printed with the command that replays it.
VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= python3
WORKERS ?= 3
MINUTES ?= 20
SEED ?= $(shell printf '%d' 0x$$(git rev-parse --short=8 'HEAD^{tree}' 2>/dev/null || echo 0))
RUN_STAMP := $(VENV)/.run-installed
TEST_STAMP := $(VENV)/.test-installed
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c

LOCK := $(BIN)/uv --quiet pip compile --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

.PHONY: help setup setup-test lock run test check format slow simulate chaos explore costs screenshots messages client bench clean

help:
	@echo "make setup | run | test | check | format | lock | slow | simulate | chaos | explore | costs | screenshots | messages | client | bench | clean"

# Packages come from lock files with hashes. --no-compile: Python compiles what it imports; much of PySpark never is. What a
# report's job and its workers import is compiled here, since the first report would wait for it, every one where the
# environment forbids writing bytecode. Spark's classes are archived, which saves half of a small report's time.
define install
@total=$$(grep -c '^[a-z0-9].*==' $(1)); \
echo "Setting up $(VENV): $$total packages, about $(2), mostly PySpark; a minute or three."; \
$(BIN)/pip install --disable-pip-version-check --progress-bar off --no-compile --require-hashes --requirement $(1) \
  | awk -v total=$$total '/^Collecting / { printf "  %d/%d %s\n", ++n, total, $$2; fflush() }' \
  || { echo "The packages of $(1) could not be installed: see the message above"; exit 1; }
@$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --no-deps --no-build-isolation --editable .
@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m app.reports.bytecode
@$(BIN)/python -m app.reports.class_recording 2>$(VENV)/class-recording.log || echo "Reports start slower than they could: see $(VENV)/class-recording.log"
endef

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is missing ($(PYTHON) is older)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing (apt install python3-venv)"; exit 1; }

$(RUN_STAMP): requirements/run.txt pyproject.toml | $(BIN)/pip
	$(call install,requirements/run.txt,1.0 GB)
	@touch $@

$(TEST_STAMP): requirements/test.txt pyproject.toml | $(BIN)/pip
	$(call install,requirements/test.txt,1.4 GB)
	@touch $(RUN_STAMP) $@

setup: $(RUN_STAMP)

setup-test: $(TEST_STAMP)

run: setup
	@$(BIN)/python -m app.reports.java --check || true
	$(BIN)/conclave up $(ARGS)

check: setup-test
	$(BIN)/pytest -q -p no:randomly tests/test_lint.py tests/test_tidy.py tests/test_dead_code.py tests/docs/test_pages.py

format: setup-test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: setup-test
	$(BIN)/python -m tests.needs
	PYTHONHASHSEED=$(SEED) $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --randomly-seed=$(SEED) --hypothesis-seed=$(SEED) $(TESTS)

lock: setup-test
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(LOCK) --extra spark pyproject.toml requirements/build.in --output-file requirements/run.txt
	$(LOCK) --extra spark --extra dev --constraint requirements/run.txt pyproject.toml requirements/build.in --output-file requirements/test.txt

# The sentences of the sources into the catalogues: new ones empty, those that are gone away.
messages: setup-test
	$(BIN)/pybabel -q extract --mapping-file pyproject.toml --keywords "phrase phrases:1,2 joined:1 catalogued" --no-location --omit-header --sort-output --width 120 --output-file app/languages/messages.pot .
	$(BIN)/pybabel -q update --input-file app/languages/messages.pot --output-file app/languages/zh.po --locale zh --no-fuzzy-matching --ignore-obsolete --width 120 --ignore-pot-creation-date

client: setup-test
	$(BIN)/python -m sdk

slow: setup-test
	$(BIN)/pytest --numprocesses $(WORKERS) -m slow

simulate: setup-test
	$(BIN)/python -m tests.simulator --seeds 10000
	$(BIN)/python -m tests.clients.simulator --seeds 40000

chaos: setup-test
	$(BIN)/python -m tests.hostile.chaos --seed 1 --seeds 10 --seconds 90
	$(BIN)/python -m tests.hostile.node_chaos --seed 1 --seeds 5 --seconds 90

explore: setup-test
	$(BIN)/python -m tests.explore --minutes $(MINUTES)

screenshots: setup-test
	$(BIN)/python -m tests.screenshots

costs: setup-test
	$(BIN)/python -m tests.hostile.explore_costs $(ARGS)

bench: setup-test
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) dist build
