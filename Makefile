# Every target sets up what it needs in .venv by itself; `make help` lists them.

PYTHON ?= python3
PYTEST_ARGS ?= -n auto

VENV := .venv
RUN := $(VENV)/bin/python

# What each stamp installs, as extras of pyproject.toml.
EXTRAS_demo := cpu,demo
EXTRAS_test := cpu,demo,test
EXTRAS_lint := cpu,demo,test,dev

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-demo ## run the terrain example and say where its picture is
	$(RUN) examples/terrain.py

test: $(VENV)/.installed-test ## run the test suite on every device there is (PYTEST_ARGS="-n 0 -k name" to choose)
	$(RUN) -m pytest $(PYTEST_ARGS) packages/tack-core/tests

lint: $(VENV)/.installed-lint ## ruff's rules and format, and mypy
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

format: $(VENV)/.installed-lint ## sort imports and format, in place
	$(RUN) -m ruff check --select I --fix .
	$(RUN) -m ruff format .

bench: $(VENV)/.installed-demo ## run the benchmarks beside C, NumPy and peers (BENCH_ARGS="--peers PYTHON" to choose)
	$(RUN) -m benchmarks.run $(BENCH_ARGS)

clean: ## remove .venv, caches and everything built or drawn
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Keyed on pyproject.toml, so that a repeat is instant and a changed dependency is installed.
$(VENV)/.installed-%: pyproject.toml tools/make_venv.sh
	@PYTHON="$(PYTHON)" tools/make_venv.sh $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS_$*)]'
	@touch $@
