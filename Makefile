# Everything from a fresh clone: python3 (3.11 or newer), pip and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
# Most of a small fit is compilation: in the suite it is done cheaply, and serves the next run.
CHEAP := --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true
# A flag that JAX 0.12 no longer knows, and ends the process for.
OLDER = $(shell $(BIN)/python -c "import jaxlib.version as v; print('--xla_cpu_use_fusion_emitters=false' * (v.__version__ < '0.11'))")
COMPILED = PYTHONDONTWRITEBYTECODE= XLA_FLAGS="$(CHEAP) $(OLDER)" JAX_COMPILATION_CACHE_DIR=$(CURDIR)/.cache/jax JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0
PYTEST = $(COMPILED) $(BIN)/python -m pytest -n 2 --dist loadfile --durations=10
SUITE = $(PYTEST) -m "not validate and not extended"
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test extended browser coverage validate bench tables check check-lowest check-newest docs wheel release-notes lock clean
.DEFAULT_GOAL := demo

$(BIN)/python:
	@echo "Making a virtual environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements.lock pyproject.toml | $(BIN)/python
	@echo "Installing folt and what it needs into $(VENV), about a minute ..."
	@$(PIP) install --quiet --requirement requirements.lock
	@$(PIP) install --quiet --no-deps --editable .
	@touch $@
	@echo "Installed. The command is $(BIN)/folt"
	@echo

$(VENV)/.installed-dev: requirements-dev.lock pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --requirement requirements-dev.lock
	$(PIP) install --quiet --no-deps --editable .
	@touch $@ $(VENV)/.installed

demo: $(VENV)/.installed ## fold, sample and certify a three-component mixture; writes demo/
	@$(BIN)/folt demo --out demo

test: $(VENV)/.installed-dev ## the test suite, without what `make extended` runs
	$(SUITE)

extended: $(VENV)/.installed-dev ## kills, browser, corpora and the paper's flows
	$(PYTEST) -m extended

browser: $(VENV)/.installed-dev ## the report in a real browser
	$(COMPILED) $(BIN)/python -m pytest -m extended tests/report/test_browser.py

coverage: $(VENV)/.installed-dev ## which lines the suite runs; the report in htmlcov/
	$(PYTEST) -m "not validate" --cov=folt --cov-report=term:skip-covered --cov-report=html

validate: $(VENV)/.installed-dev ## the extended tests and the long statistical validations; results in benchmarks/results
	$(PYTEST) -m extended
	$(BIN)/python -m pytest -m validate

bench: $(VENV)/.installed-dev ## speed and quality; results in benchmarks/results
	$(BIN)/python -m benchmarks

tables: $(VENV)/.installed-dev ## the tables of README and docs from the committed results
	$(BIN)/python -m benchmarks.tables
	$(BIN)/python docs/reproduction.py
	$(BIN)/python docs/architecture.py

check: $(VENV)/.installed-dev ## lint, formatting, spelling, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports

check-newest: ## the suite on the newest versions of everything, unlocked, in Python 3.13
	XLA_FLAGS="$(CHEAP)" .ci/newest -n 2 --dist loadfile $(TESTS)

check-lowest: $(VENV)/.installed-dev ## a smoke fit on the lowest versions that pyproject.toml names
	$(BIN)/uv pip compile pyproject.toml --extra arviz --extra report --extra tables --resolution lowest-direct --python-version 3.11 --quiet -o $(LOWEST).txt
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --requirement $(LOWEST).txt
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --no-deps --reinstall-package folt .
	$(LOWEST)/bin/python tests/smoke.py > /dev/null

docs: $(VENV)/.installed-dev ## the site in site/, its tutorials executed; every warning is an error
	$(BIN)/python docs/check_links.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html"

wheel: $(VENV)/.installed-dev ## the package in dist/
	$(BIN)/uv build --wheel --sdist --quiet

release-notes: $(VENV)/.installed-dev ## the changelog's section of this version
	@$(BIN)/python docs/release_notes.py

# The newest that each Python can have: below 3.12 the generation of ArviZ 0.23 and PyMC 5, from
# 3.12 that of ArviZ 1 and PyMC 6. The first file is what `make demo` shows, the second everything.
PINS := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --fork-strategy requires-python --upgrade --no-header --no-annotate
lock: $(VENV)/.installed-dev ## renew the pins
	$(PINS) --extra dev -o requirements-dev.lock
	$(PINS) --extra report --extra tables -c requirements-dev.lock -o requirements.lock

clean:
	rm -rf demo site dist htmlcov .coverage $(LOWEST) $(LOWEST).txt .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
