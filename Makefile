# From a fresh clone: `make demo` sets up and runs the main job, `make test` sets up and tests.
PYTHON ?= python3
BIN := .venv/bin
# Waiting OpenMP threads that spin can slow a step many times over on a shared machine.
export OMP_WAIT_POLICY ?= passive

.PHONY: setup demo test check lint types tables bench clean

setup: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,kg]'
	touch $@

demo: setup
	$(BIN)/det demo

test: setup
	$(BIN)/pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

check: lint types test

tables: setup  # README's tables, from results/
	$(BIN)/python -m detgraph.report.readme README.md

.venv/bench: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	touch $@

bench: .venv/bench  # speed beside peers, one JSON line each; ONLY=name for one figure
	$(BIN)/python benchmarks/run.py $(if $(ONLY),--only $(ONLY))

clean:
	rm -rf .venv runs demo-runs .mypy_cache .ruff_cache .pytest_cache
