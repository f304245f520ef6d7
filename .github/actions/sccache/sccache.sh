#!/bin/bash
# Before a build: starts sccache's server on a bucket and gives CC and CXX. After it, with STATS=true: shows the statistics, also in
# the summary of the job. Only the server has the credentials of a role; the steps of the job have none.
set -euo pipefail
fail() {
  printf '::error title=sccache::%s\n' "$1"
  exit 1
}
command -v sccache >/dev/null || fail 'sccache not found; use a runner image that has it, or install it in a step before'
if [[ ${STATS:?} == true ]]; then
  figures="$(sccache --show-stats)"
  printf '%s\n' "$figures"
  printf '### sccache\n\n<pre>\n%s\n</pre>\n\n' "$figures" >>"${GITHUB_STEP_SUMMARY:?}"
  exit
fi
[[ ${BUCKET-} =~ ^[a-z0-9-]+$ && ${REGION-} =~ ^[a-z0-9-]+$ ]] || fail 'bucket and region are names, such as example-ccache and us-west-2'
settings=("SCCACHE_BUCKET=$BUCKET" "SCCACHE_REGION=$REGION" SCCACHE_S3_KEY_PREFIX=sccache SCCACHE_S3_USE_SSL=true)
# The server lives as long as the job: a second one would have no credentials.
settings+=(SCCACHE_IDLE_TIMEOUT=0)
if [[ -z ${AWS_ACCESS_KEY_ID-} ]]; then
  unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN
  settings+=(SCCACHE_S3_NO_CREDENTIALS=true)
fi
export "${settings[@]}"
sccache --start-server
sccache --zero-stats >/dev/null
printf '%s\n' "${settings[@]}" >>"${GITHUB_ENV:?}"
printf 'cc=sccache gcc\ncxx=sccache g++\n' >>"${GITHUB_OUTPUT:?}"
