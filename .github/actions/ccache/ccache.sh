#!/bin/bash
# Before a build: clears ccache's figures, sets its size, connects it to a bucket, and gives CC and CXX. After it, with STATS=true:
# shows the figures.
set -euo pipefail
HERE="${GITHUB_ACTION_PATH:?}"
fail() {
  printf '::error title=ccache::%s\n' "$1"
  exit 1
}
command -v ccache >/dev/null || fail 'ccache not found; use a runner image that has it, or install it in a step before'
if [[ ${STATS:?} == true ]]; then
  ccache -s
  exit
fi
[[ ${MAX_SIZE:?} =~ ^[0-9]+(\.[0-9]+)?[kMGT]i?$ ]] || fail 'max-size is a number with k, M, G or T, such as 10G'
ccache -z
ccache --max-size="$MAX_SIZE"
folder="$(ccache --get-config=cache_dir)"
if [[ -n ${BUCKET-} ]]; then
  [[ $BUCKET =~ ^[a-z0-9-]+$ && ${REGION-} =~ ^[a-z0-9-]+$ ]] || fail 'bucket and region are names, such as example-ccache and us-west-2'
  command -v python3 >/dev/null || fail 'python3 not found; a cache in S3 needs it'
  port="$(python3 "$HERE/s3_storage.py")"
  storage="http://127.0.0.1:$port"
  [[ -n ${AWS_ACCESS_KEY_ID-} ]] || storage+='|read-only'
  # ccache 4.4 to 4.6 know the second name only.
  printf 'CCACHE_REMOTE_STORAGE=%s\nCCACHE_SECONDARY_STORAGE=%s\n' "$storage" "$storage" >>"${GITHUB_ENV:?}"
fi
printf 'cc=ccache gcc\ncxx=ccache g++\nfolder=%s\n' "$folder" >>"${GITHUB_OUTPUT:?}"
