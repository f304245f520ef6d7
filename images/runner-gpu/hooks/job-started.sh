#!/bin/bash
# Runs before the first step of a job. A status other than 0 fails the job, so only the workspace may stop it.
set -euo pipefail
workspace=${GITHUB_WORKSPACE:?the runner sets it}
if [[ $workspace != /home/runner/_work/?* || $workspace == *..* ]]; then
  printf '::error title=workspace::%s is not below /home/runner/_work\n' "$workspace"
  exit 1
fi
# An ephemeral runner starts with an empty workspace. Whatever is in it is not this job's.
if [[ -d $workspace ]]; then
  find "$workspace" -mindepth 1 -delete
fi
if command -v ccache >/dev/null; then
  ccache --zero-stats >/dev/null || printf '::warning title=ccache::no statistics: ccache cannot write its folder\n'
fi
if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || printf '::warning title=GPU::nvidia-smi fails\n'
fi
