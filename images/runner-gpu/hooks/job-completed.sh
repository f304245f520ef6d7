#!/bin/bash
# Runs after the last step of a job. A status other than 0 fails the job, so it ends with 0 and leaves out the figures that it cannot get.
# The runner calls it with `bash -e`.
set -uo pipefail +e

figures() {
  local files
  if files=$(timeout 20 du -sh "${GITHUB_WORKSPACE:?the runner sets it}" 2>/dev/null); then
    printf 'workspace: %s\n' "${files%%$'\t'*}"
  fi
  # One line of numbers: "direct_cache_hit 12". All of them are 0 if the job compiled nothing through ccache.
  if command -v ccache >/dev/null && ccache --print-stats 2>/dev/null | grep -Eq '^(direct_cache_hit|preprocessed_cache_hit|cache_miss)\s+[1-9]'; then
    ccache --show-stats
  fi
  # sccache starts a server for this question if none runs, and that server would count nothing.
  if command -v sccache >/dev/null && (: </dev/tcp/127.0.0.1/"${SCCACHE_SERVER_PORT:-4226}") 2>/dev/null; then
    timeout 20 sccache --show-stats
  fi
}

text=$(figures)
printf '%s\n' "$text"
if [[ -n $text && -w ${GITHUB_STEP_SUMMARY:-} ]]; then
  # shellcheck disable=SC2016 # the backticks are Markdown's
  printf '### Disk and compiler caches\n\n```\n%s\n```\n' "$text" >>"$GITHUB_STEP_SUMMARY"
fi
exit 0
