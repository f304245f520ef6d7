#!/bin/bash
# Installs the packages of a lock with their hashes, and gpu-ci of the action's own commit, as its wheel lays it out: then the
# current folder is the project. Reads PYTHON and LOCK.
set -euo pipefail

site="${RUNNER_TEMP:?}/gpu-ci"
"${PYTHON:?}" -m venv "$site"
"$site/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
  --requirement "${GITHUB_ACTION_PATH:?}/${LOCK:?}"
mkdir "$site/program"
cp -R "$GITHUB_ACTION_PATH/gpu_ci" "$site/program/gpu_ci"
mkdir "$site/program/gpu_ci/_tree"
for part in __main__.py Pulumi.yaml components fleet images policies pyproject.toml; do
  cp -R "$GITHUB_ACTION_PATH/$part" "$site/program/gpu_ci/_tree/$part"
done
