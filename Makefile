# Every target sets up what it needs: a virtual environment in .venv from the hashed locks. STACK names the stack.
# Statuses: make fails or succeeds; `python -m offline plan` tells 1 (a proof or policy fails) from 2 (wrong input).

# Only the command line sets these four: OUT or FILE of somebody else's environment would write or read where nobody asked.
# STACK, OUT and FILE are taken as they stand and reach the recipes as variables of the shell, so that neither make nor the
# shell runs or parts what is in them. ARGS is words for the shell: quote in it what belongs together.
STACK := staging
override STACK := $(value STACK)
OUT := build/$(STACK)
override OUT := $(value OUT)
FILE :=
override FILE := $(value FILE)
ARGS :=
export STACK OUT FILE
PYTHON ?= $(firstword $(foreach name,python3.13 python3.12 python3.11 python3,\
  $(shell $(name) -c 'import sys; sys.version_info >= (3, 11) and print("$(name)")' 2>/dev/null)))
BIN := .venv/bin
CODE := fleet components policies offline bench tests __main__.py

.DEFAULT_GOAL := help
.PHONY: help plan render test lint format bench lock clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

plan: .venv/run ## Prove a stack offline: STACK=staging [FILE=path] [ARGS=--json]
	@$(BIN)/python -m offline plan $${FILE:+--file "$$FILE"} $(ARGS) -- "$$STACK"

render: .venv/run ## Write a stack's manifests and chart values: STACK=staging OUT=DIR
	@$(BIN)/python -m offline render --out "$$OUT" $${FILE:+--file "$$FILE"} $(ARGS) -- "$$STACK"

test: .venv/dev lint ## Run lint and every test that needs no cloud
	$(BIN)/python -m pytest -q $(ARGS)

lint: .venv/dev ## Format check, lint, types, YAML, shell
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/yamllint --strict *.yaml policies examples
	$(BIN)/shellcheck .ci/run fleet/machine/bootstrap.sh

format: .venv/dev ## Format the code
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

bench: .venv/dev ## Time and memory of a plan, as ratios to bare mocks in the same run
	$(BIN)/python -m bench $(ARGS)

lock: .venv/dev ## Renew both locks from their .in files
	$(BIN)/uv pip compile --quiet --no-header --universal --python-version 3.11 --generate-hashes $(ARGS) -o requirements.txt requirements.in
	$(BIN)/uv pip compile --quiet --no-header --universal --python-version 3.11 --generate-hashes $(ARGS) -o requirements-dev.txt requirements-dev.in

clean: ## Remove the virtual environment and everything generated
	rm -rf .venv build .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/made:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer on PATH; install one or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/run: .venv/made requirements.txt
	@echo "Installing what a plan needs (once) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@touch $@

.venv/dev: .venv/run requirements-dev.txt
	@echo "Installing what the tests need (once) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@
