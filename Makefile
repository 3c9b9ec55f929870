# The project's commands; `make` alone lists them.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-cluster check format oracles chaos bench wheel clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/installed  ## set everything up and run the example study
	$(BIN)/rulesweep run examples/quick.yaml

test: $(VENV)/installed-test  ## set everything up and run the tests
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

test-cluster: $(VENV)/installed-test $(VENV)/installed-cluster  ## a cluster of hosts made of this machine (root, Linux; minutes)
	$(BIN)/python -m pytest -q -m cluster tests/cluster

check: $(VENV)/installed-check  ## formatting, lint, types, arrows between packages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(VENV)/installed-check  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

oracles: $(VENV)/installed-test  ## compare a step of the rules with published code (see tests/oracles)
	$(PIP) --no-deps --upgrade --target build/oracles biotorch==0.0.16
	PYTHONPATH=build/oracles $(BIN)/python -m pytest -q -m oracle tests/oracles

chaos: $(VENV)/installed-test  ## faults at random over one study for ten minutes: is a row lost?
	$(BIN)/python tests/orchestrator/chaos.py --minutes 10

bench: $(VENV)/installed-bench  ## measure speed and memory side by side (minutes)
	$(BIN)/python -m benchmarks

wheel: $(VENV)/installed  ## dist/: this checkout as a wheel, and constraints.txt, for a cluster's nodes
	rm -rf dist build
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	cp constraints.txt dist/

clean:  ## remove the environment and what tools leave behind; runs/ stays
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing rulesweep and its pinned dependencies into $(VENV) (minutes, once)"
	$(PIP) --editable .
	@touch $@

$(VENV)/installed-%: $(VENV)/installed
	$(PIP) --editable '.[$*]'
	@touch $@
