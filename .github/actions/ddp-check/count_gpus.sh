#!/bin/bash
# Holds that this runner sees GPUS different GPUs, by their UUIDs: of two time slices both may be of one.
set -euo pipefail
fail() {
  printf '::error title=ddp-check::%s\n' "$1"
  exit 1
}
uuids="$(nvidia-smi --query-gpu=uuid --format=csv,noheader)" || fail "nvidia-smi reaches no driver; use a runner with GPUs"
printf '%s\n' "$uuids"
different="$(grep '^GPU-' <<<"$uuids" | sort -u | wc -l)" || fail "nvidia-smi names no GPU; use a runner with GPUs"
[[ $different -ge ${GPUS:?} ]] \
  || fail "$different different GPUs, not $GPUS; use a machine that has as many, or a pool that shares none"
