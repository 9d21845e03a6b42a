# Everything runs from a bare machine: Python 3.11 or newer, make and a package index.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
export PYTHONPATH := src

.DEFAULT_GOAL := help
.PHONY: help run test check bench campaign faults model lock clean

help: ## say what there is
	@sed -n 's/^\([a-z]*\):[^#]*## /\1: /p' Makefile | awk -F': ' '{ printf "make %-9s %s\n", $$1, $$2 }'

run: $(READY) ## start the demonstration
	$(BIN)/python -m joblog demo

# Tests kill processes, and cut power only in recordings: memory is disk enough for them, and much faster.
ROOMY := $(shell [ "$$(df -Pk /dev/shm 2> /dev/null | awk 'END { print $$4 }')" -gt 4000000 ] 2> /dev/null && echo /dev/shm)
test faults: export TMPDIR := $(or $(TMPDIR),$(ROOMY),/tmp)

test: $(READY) ## run the tests, on SQLite and on a PostgreSQL of their own
	@tests/bring.sh chromium curl node strace
	$(BIN)/python -m pytest -n 2 $(ARGS)

check: $(READY) ## formatting, lint, types, and which package may import which
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy src/joblog tests
	$(BIN)/lint-imports

bench: $(READY) ## measure: what users wait for (W0-W7), then appends and claims against bare SQL
	$(BIN)/python bench/workloads.py
	$(BIN)/python bench/run.py $(ARGS)

campaign: $(READY) ## break everything for hours (kills, power cuts, networks)
	@tests/bring.sh strace
	$(BIN)/python -m tests.faults.campaign $(ARGS)

faults: $(READY) ## break everything for the minutes that a merge may take
	@tests/bring.sh strace
	$(BIN)/python -m tests.faults.campaign --profile merge

model: ## check the model of leases and fencing
	@tests/bring.sh spin cc
	tests/model/check.sh

lock: $(READY) ## pin again what pyproject.toml asks for, at the newest versions
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet '.[dev]'
	{ grep '^#' requirements-dev.lock; build/lock/bin/pip freeze --exclude joblog; } > build/lock/pins
	mv build/lock/pins requirements-dev.lock
	rm -rf build/lock

clean: ## remove all that was made here
	rm -rf .venv build dist htmlcov .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "joblog needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Say: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e '.[dev]'
	@touch $@
