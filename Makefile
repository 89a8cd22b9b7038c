# Engram: `make demo` and `make test` are all a newcomer needs; `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help setup servers demo test test-chaos test-models check format lock bench clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: $(INSTALLED) ## create .venv from the lock file

$(INSTALLED): requirements-dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

servers: setup ## fetch and build the servers that are missing (the first time: some minutes)
	$(BIN)/engram prepare

demo: setup ## start the real servers, play a conversation, rebuild every store, prove that they agree
	$(BIN)/engram demo

test: servers ## run the tests on the real servers (started and stopped by the tests)
	$(BIN)/pytest -m "not chaos and not models"

test-chaos: servers ## kill, freeze and restart workers and servers under load
	$(BIN)/pytest -m chaos --timeout 900

test-models: servers ## tests that need optional models
	$(BIN)/pytest -m models --timeout 900

check: setup ## format, lint, types, import rules, schema compatibility, compose file
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m schemas.compatibility
	$(BIN)/pytest tests/infra/test_compose.py

format: setup ## format the code and apply safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: setup ## pin the newest versions that pyproject.toml allows
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --generate-hashes --no-header --no-emit-index-url pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --python-version 3.11 --generate-hashes --no-header --no-emit-index-url -c requirements.lock --group dev pyproject.toml -o requirements-dev.lock

bench: servers ## measure speed, each figure against the raw library in the same run
	$(BIN)/python -m bench

clean: ## remove what was built here; data in .engram stays
	rm -rf build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
