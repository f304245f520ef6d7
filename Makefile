# Every target sets up what it needs: a virtual environment in .venv from the hashed locks. STACK names the stack.
# Statuses: make fails or succeeds; `.venv/bin/gpu-ci plan` tells 1 (a proof or policy fails) from 2 (wrong input).

# Only the command line sets these: OUT or FILE of somebody else's environment would write or read where nobody asked, and
# CONTEXT would choose a cluster.
# All but ARGS are taken as they stand and reach the recipes as variables of the shell, so that neither make nor the shell runs or
# parts what is in them. ARGS is words for the shell: quote in it what belongs together.
STACK := staging
override STACK := $(value STACK)
OUT := $(if $(filter policy-pack,$(MAKECMDGOALS)),,build/$(STACK))
override OUT := $(value OUT)
FILE :=
override FILE := $(value FILE)
BASE :=
override BASE := $(value BASE)
CLUSTER :=
override CLUSTER := $(value CLUSTER)
POOL :=
override POOL := $(value POOL)
CONTEXT :=
override CONTEXT := $(value CONTEXT)
REPOSITORY :=
override REPOSITORY := $(value REPOSITORY)
CHECK :=
override CHECK := $(value CHECK)
BUDGET_USD :=
override BUDGET_USD := $(value BUDGET_USD)
DIR :=
override DIR := $(value DIR)
CUDA := 12.1
override CUDA := $(value CUDA)
UBUNTU := 22.04
override UBUNTU := $(value UBUNTU)
FLAVOUR := devel
override FLAVOUR := $(value FLAVOUR)
ARGS :=
export STACK OUT FILE BASE CLUSTER POOL CONTEXT REPOSITORY CHECK BUDGET_USD DIR CUDA UBUNTU FLAVOUR
PYTHON ?= $(firstword $(foreach name,python3.13 python3.12 python3.11 python3,\
  $(shell $(name) -c 'import sys; sys.version_info >= (3, 11) and print("$(name)")' 2>/dev/null)))
BIN := .venv/bin
LOCK := $(BIN)/uv pip compile --quiet --no-header --universal --generate-hashes $(ARGS)
CODE = $(shell git ls-files '*.py' | cut -d/ -f1 | sort -u)

.DEFAULT_GOAL := help
TARGETS := help init add remove agree plan render doctor pending check smoke acceptance world drills docs pictures policy-pack image image-test image-push test test-code test-pages test-alerts search lint lint-images size site format bench lock clean
.PHONY: $(TARGETS)

# Without this, `make plan prod` would plan the default stack, and fail only then.
ifneq ($(filter-out $(TARGETS) .venv/%,$(MAKECMDGOALS)),)
$(error No rule to make target "$(firstword $(filter-out $(TARGETS) .venv/%,$(MAKECMDGOALS)))"; nothing was done. \
A stack is a variable: make $(firstword $(filter $(TARGETS),$(MAKECMDGOALS)) plan) STACK=$(firstword $(filter-out $(TARGETS) .venv/%,$(MAKECMDGOALS))). make help shows the targets)
endif

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

init: .venv/run ## Write a new stack from a few questions: STACK=acme [ARGS="--provider eks --region us-west-2 …"]
	@$(BIN)/gpu-ci init $(ARGS) -- "$$STACK"

# The command wants the kind, the stack and the name, in this order.
GROW = set -- $(ARGS); kind=$$1 name=$$2; [ $$\# -lt 2 ] || shift 2; \
  $(BIN)/gpu-ci $@ "$$kind" $${FILE:+--file "$$FILE"} "$$@" -- "$$STACK" "$$name"

add: .venv/run ## Add a pool, class, region or cluster to a stack: STACK=acme ARGS="pool l4-spot --gpu L4 …" [FILE=path]
	@$(GROW)

remove: .venv/run ## Remove a pool, class, region or cluster from a stack: STACK=acme ARGS="pool l4-spot" [FILE=path]
	@$(GROW)

plan: .venv/run ## Prove a stack offline: STACK=staging [FILE=path] [BASE=DIR] [ARGS=--markdown]
	@$(BIN)/gpu-ci plan $${FILE:+--file "$$FILE"} $${BASE:+--base "$$BASE"} $(ARGS) -- "$$STACK"

who-can: .venv/run ## Show who reaches each secret, role, state and cache: STACK=staging [FILE=path] [ARGS=--json]
	@$(BIN)/gpu-ci who-can $${FILE:+--file "$$FILE"} $(ARGS) -- "$$STACK"

agree: .venv/run ## Allow what a stack's fleet needs, with reasons and price: STACK=staging [FILE=path] [ARGS=--yes]
	@$(BIN)/gpu-ci agree $${FILE:+--file "$$FILE"} $(ARGS) -- "$$STACK"

render: .venv/run ## Write a stack's manifests and chart values, or what ArgoCD reads: STACK=staging OUT=DIR [CHECK=1: compare]
	@$(BIN)/gpu-ci render --out "$$OUT" $${FILE:+--file "$$FILE"} $${CHECK:+--check} $(ARGS) -- "$$STACK"

doctor: .venv/doctor ## Check tools, settings, credentials, quotas and offers before pulumi up: STACK=staging [FILE=path] [ARGS=--json]
	@$(BIN)/gpu-ci doctor $${FILE:+--file "$$FILE"} $(ARGS) -- "$$STACK"

pending: .venv/doctor ## List what an interrupted pulumi up left, with the commands that settle it: STACK=staging [FILE=path] [ARGS=--json]
	@$(BIN)/gpu-ci pending $${FILE:+--file "$$FILE"} $(ARGS) -- "$$STACK"

check: .venv/run ## Judge manifests from anywhere by the policies: DIR=folder [STACK=staging] [ARGS=--strict]
	@$(BIN)/gpu-ci check $(ARGS) -- "$$STACK" "$$DIR"

smoke: .venv/run ## Test GPU pools on a live cluster, or print the tests: STACK=staging [FILE=path] [CONTEXT=name] [CLUSTER=name] [POOL=name] [REPOSITORY=owner/name]
	@$(BIN)/gpu-ci smoke $${FILE:+--file "$$FILE"} $${CONTEXT:+--context "$$CONTEXT"} $${CLUSTER:+--cluster "$$CLUSTER"} $${POOL:+--pool "$$POOL"} $${REPOSITORY:+--repository "$$REPOSITORY"} $(ARGS) -- "$$STACK"

acceptance: .venv/doctor ## Build a stack in your account, run a GPU job, edit, destroy, look for leftovers: STACK= BUDGET_USD= [ARGS=--yes]
	@$(BIN)/gpu-ci accept --budget-usd "$$BUDGET_USD" $(ARGS) -- "$$STACK"

world: .venv/doctor ## Run a stack's real control plane with jobs on this machine: STACK=staging [FILE=path] [CLUSTER=name] [ARGS="--jobs 100"]
	@$(BIN)/gpu-ci world $${FILE:+--file "$$FILE"} $${CLUSTER:+--cluster "$$CLUSTER"} $(ARGS) -- "$$STACK"

drills: .venv/doctor ## Run every fault in the world of a stack, one after another: STACK=staging [FILE=path] [ARGS="--record FILE"]
	@$(BIN)/gpu-ci world --faults all $${FILE:+--file "$$FILE"} $${CLUSTER:+--cluster "$$CLUSTER"} $(ARGS) -- "$$STACK"

docs: .venv/run ## Write policies/config/*.json, package/schema.json, schema/stack.schema.json and the generated pages of docs/
	@$(BIN)/gpu-ci policy-config > /dev/null
	@$(BIN)/gpu-ci policies > docs/.policies.md && mv docs/.policies.md docs/policies.md
	@$(BIN)/python -m package.reference
	@$(BIN)/gpu-ci schema > schema/.stack.json && mv schema/.stack.json schema/stack.schema.json
	@$(BIN)/gpu-ci settings --out docs
	@for file in Pulumi.*.yaml; do \
	  stack=$${file#Pulumi.}; stack=$${stack%.yaml}; \
	  $(BIN)/gpu-ci inventory -- "$$stack" > docs/.inventory.md && mv docs/.inventory.md "docs/inventory-$$stack.md" || exit; done

pictures: .venv/pictures ## Draw the pictures of docs/images: diagrams from their Mermaid text, and the plan
	GPU_CI_RENEW=1 $(BIN)/python -m pytest -q tests/docs/test_pictures.py

# Below a .gitignore the CLI may publish nothing of it: without OUT it goes to a new folder among the temporary ones.
policy-pack: .venv/run ## Write the policy pack as a folder to publish: [OUT=DIR]
	@$(BIN)/gpu-ci policy-pack --out "$${OUT:-$$(mktemp -d)/policy-pack}" $(ARGS)

image: .venv/run ## Build the runner image by podman, docker or buildah: CUDA=12.1 UBUNTU=22.04 FLAVOUR=base|runtime|devel
	@$(BIN)/gpu-ci image build --cuda "$$CUDA" --ubuntu "$$UBUNTU" --flavour "$$FLAVOUR" $(ARGS)

image-test: .venv/run ## Test a built runner image in a container: CUDA= UBUNTU= FLAVOUR= [ARGS=--on-gpu]
	@$(BIN)/gpu-ci image test --cuda "$$CUDA" --ubuntu "$$UBUNTU" --flavour "$$FLAVOUR" $(ARGS)

image-push: .venv/run ## Print the push of a runner image for the regions of a stack, or run it: STACK=staging [FILE=path] [ARGS=--run]
	@$(BIN)/gpu-ci image push $${FILE:+--file "$$FILE"} --cuda "$$CUDA" --ubuntu "$$UBUNTU" --flavour "$$FLAVOUR" $(ARGS) -- "$$STACK"

# Lint beside the tests: the longest part of lint has one process.
test: .venv/dev ## Run lint and every test of the code, which needs no cloud: [ARGS="--processes 1": in one process]
	@$(MAKE) --no-print-directory -j2 lint test-code

# A process for each core, and bytecode for the next run: each would compile the whole project.
PAGES = tests/docs $(filter-out tests/docs/%,$(wildcard tests/*/test_page.py tests/*/test_*_page.py tests/*/*/test_page.py))
test-code: .venv/dev ## Run the tests of the code without lint: [ARGS="--processes 1": in one process]
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q --processes auto $(addprefix --ignore=,$(PAGES)) $(ARGS)

test-pages: .venv/dev ## Run the tests of README and docs, and check the links of the site: [ARGS="--processes 1": in one process]
	$(BIN)/python .ci/pages.py
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q --processes auto $(PAGES) $(ARGS)

test-alerts: .venv/dev ## Run the rules' promtool cases, and change every rule: a case must fail
	@$(BIN)/python -m tests.monitoring

search: .venv/dev ## Run the property tests with examples that no run had before
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q --processes auto -m hypothesis --hypothesis-profile=search --timeout=0 $(ARGS)

# To write a cache takes mypy a fifth of its time: it has one only where somebody has run it alone.
lint: .venv/dev lint-images ## Format check, lint, types, YAML, prose, shell, workflows, images
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy $(if $(wildcard .mypy_cache),,--cache-dir=/dev/null)
	$(BIN)/yamllint --strict -c .ci/yamllint.yaml *.yaml package/*.yaml package/*/*.yaml policies deployments bootstrap examples .github
	$(BIN)/python .ci/prose.py README.md CHANGELOG.md CONTRIBUTING.md docs $(CODE)
	$(BIN)/shellcheck .ci/run .ci/plans deployments/take-role.sh components/oci/node.sh fleet/providers/oke/machine/bootstrap.sh fleet/providers/eks/recipe/*.sh .github/actions/*/*.sh .github/scripts/*.sh
	$(BIN)/shellcheck --shell=bash components/oci/local-disks.sh
	$(BIN)/shellcheck --shell=sh gpu_ci/world/enter.sh
	$(BIN)/python .ci/size.py
	$(BIN)/zizmor --offline --quiet --persona auditor action.yml .github/workflows .github/actions

size: .venv/dev ## Count the lines of code outside tests, by folder
	@$(BIN)/python .ci/size.py

site: .venv/dev ## Build the documentation site into build/site: [ARGS=URL of the repository]
	$(BIN)/python .ci/pages.py $(ARGS)

lint-images: .venv/dev ## Check the Dockerfiles and the shell scripts of images
	$(BIN)/hadolint --config images/runner-gpu/.hadolint.yaml images/*/Dockerfile
	$(BIN)/shellcheck images/*/*.sh images/*/hooks/*.sh fleet/charts/*.sh

format: .venv/dev ## Format the code
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

bench: .venv/dev ## Time and memory of a plan, as ratios to bare mocks in the same run
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m tests.bench $(ARGS)

lock: .venv/dev ## Renew the locks: those of Python programs from pyproject.toml, others from their .in files
	$(LOCK) --python-version 3.11 -o requirements.txt pyproject.toml --extra pulumi --extra submit
	$(LOCK) --python-version 3.11 -o deployments/requirements.txt -c requirements.txt --group deployments
	$(LOCK) --python-version 3.11 -o deployments/oci-cli.txt --group oci-cli
	$(LOCK) --python-version 3.11 -o policies/requirements.txt -c requirements.txt --group policies
	$(LOCK) --python-version 3.11 -o package/requirements.txt -c requirements.txt --group package
	for cloud in kubernetes eks oci; do \
	  $(LOCK) --python-version 3.11 -o package/$$cloud/requirements.txt -c requirements.txt --group package-$$cloud || exit; done
	$(LOCK) --python-version 3.11 -o .ci/requirements/core.txt -c requirements.txt pyproject.toml
	$(LOCK) --python-version 3.11 -o .ci/requirements/doctor.txt -c requirements.txt pyproject.toml --extra doctor
	$(LOCK) --python-version 3.11 -o .ci/requirements/dev.txt -c requirements.txt -c deployments/requirements.txt pyproject.toml --extra doctor --group dev
	$(LOCK) --python-version 3.11 -o .ci/requirements/release.txt -c .ci/requirements/dev.txt --group release
	$(LOCK) --python-version 3.11 -o .ci/requirements/pictures.txt --group pictures
	@# What the runner image has: for Python 3.10 of Ubuntu 22.04 and 3.12 of 24.04.
	$(LOCK) --python-version 3.10 -o images/runner-gpu/requirements.txt images/runner-gpu/requirements.in
	@# What jobs install: by the Python that the actions set up.
	for lock in setup-torch/requirements setup-torch/requirements-cuda12 kubeflow-blueprint/requirements; do \
	  $(LOCK) --python-version 3.12 -o .github/actions/$$lock.txt .github/actions/$$lock.in || exit; done

clean: ## Remove the virtual environment and everything generated
	rm -rf .venv build .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/made:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer on PATH; install one or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/run: .venv/made requirements.txt .ci/install.py
	@echo "Installing what a plan needs, once: about 65 MB …" >&2
	@$(BIN)/python .ci/install.py requirements.txt
	@touch $@

.venv/doctor: .venv/run .ci/requirements/doctor.txt
	@echo "Installing the cloud SDKs of doctor, once …" >&2
	@$(BIN)/python .ci/install.py .ci/requirements/doctor.txt
	@touch $@

# pip compiles what it installs, and uv does not: without this the first run of the tests would compile for 20 seconds. These are
# the largest packages that tests load; the whole of the providers would take minutes.
COMPILED := _pytest boto3 cryptography google grpc hypothesis moto/core moto/ec2 moto/iam moto/s3 \
  $(addprefix oci/,_vendor container_engine core dns identity load_balancer object_storage) \
  pulumi $(addprefix pulumi_aws/,cloudwatch ec2 eks iam s3) pulumi_kubernetes/core \
  $(addprefix pulumi_oci/,containerengine core filestorage identity objectstorage) pydantic rich typer
.venv/dev: .venv/run .ci/requirements/dev.txt
	@echo "Installing what the tests need, once …" >&2
	@$(BIN)/python .ci/install.py .ci/requirements/dev.txt
	-@cd .venv/lib/python*/site-packages && ../../../bin/python -m compileall -qq -j 0 $(COMPILED)
	@touch $@

# Only what writes the artifacts: the job that attests them installs nothing else.
.venv/release: .venv/run .ci/requirements/release.txt
	@$(BIN)/python .ci/install.py .ci/requirements/release.txt
	@touch $@

# What draws diagrams has wheels for few machines, so no other target needs it.
.venv/pictures: .venv/dev .ci/requirements/pictures.txt
	@$(BIN)/python .ci/install.py .ci/requirements/pictures.txt
	@touch $@
