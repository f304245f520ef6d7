#!/bin/bash
# Before a build: clears ccache's figures, sets its size, and gives CC and CXX. After it, with STATS=true: shows the figures.
set -euo pipefail
if ! command -v ccache >/dev/null; then
  printf '::error title=ccache::ccache not found; use a runner image that has it, or install it in a step before\n'
  exit 1
fi
if [[ ${STATS:?} == true ]]; then
  ccache -s
  exit
fi
if [[ ! ${MAX_SIZE:?} =~ ^[0-9]+(\.[0-9]+)?[kMGT]i?$ ]]; then
  printf '::error title=ccache::max-size is a number with k, M, G or T, such as 10G\n'
  exit 1
fi
ccache -z
ccache --max-size="$MAX_SIZE"
folder="$(ccache --get-config=cache_dir)"
printf 'cc=ccache gcc\ncxx=ccache g++\nfolder=%s\n' "$folder" >>"${GITHUB_OUTPUT:?}"
