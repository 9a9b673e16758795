# make run: set up and start the product (ARGS: options of `conclave up`).
# make chaos: ten times 90 s of kills, pauses, broken links and voter changes on three real controllers under load.
# make test: set up, check and run every test, two files at a time (TESTS: some of them; WORKERS: 0 for one after the other;
#   SEED: draws the order of the tests, the examples of properties and the order of sets, else the committed tree does,
#   so that the same commit gets the same verdict).
# make explore: what `make test` leaves to chance, before a release: properties, simulator and chaos with fresh seeds for
#   MINUTES (20); each failure is printed with the command that replays it.
VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= python3
WORKERS ?= 2
MINUTES ?= 20
SEED ?= $(shell printf '%d' 0x$$(git rev-parse --short=8 'HEAD^{tree}' 2>/dev/null || echo 0))
STAMP := $(VENV)/.installed

.PHONY: help setup run test check format simulate chaos explore bench clean

help:
	@echo "make setup | run | test | check | format | simulate | chaos | explore | bench | clean"

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is missing ($(PYTHON) is older)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing (apt install python3-venv)"; exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[spark,dev]'
	@touch $@

setup: $(STAMP)

run: setup
	@$(BIN)/python -m app.reports.java --check || true
	$(BIN)/conclave up $(ARGS)

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/test_tidy.py

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: setup check
	$(BIN)/python -m tests.needs
	PYTHONHASHSEED=$(SEED) $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --randomly-seed=$(SEED) --hypothesis-seed=$(SEED) $(TESTS)

simulate: setup
	$(BIN)/python -m tests.simulator --seeds 10000

chaos: setup
	$(BIN)/python -m tests.hostile.chaos --seed 1 --seeds 10 --seconds 90

explore: setup
	$(BIN)/python -m tests.explore --minutes $(MINUTES)

bench: setup
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) dist build
