#!/bin/bash
# Writes the answer of `gpu-ci why` into the job's summary. A job that is stuck is a warning; a wrong input fails the step.
set -euo pipefail

ROOT="${GPU_CI_ROOT:-$GITHUB_ACTION_PATH/../../..}" # another folder in tests

refuse() {
  printf '::error title=why-waiting::%s\n' "$1"
  exit 2
}
[[ ${WHY_MINUTES-} =~ ^[0-9]{1,3}$ ]] || refuse 'minutes must be a whole number below 1000'
words=(--days "${WHY_DAYS:?}")
target="${GITHUB_SERVER_URL:?}/${GITHUB_REPOSITORY:?}"
case ${WHY_REPORT-} in
  true) words+=(--report) ;;
  false) target+="/actions/runs/${GITHUB_RUN_ID:?}" ;;
  *) refuse 'report must be "true" or "false"' ;;
esac
[[ -z ${WHY_STACK_FILE-} ]] || words+=(--stack "${WHY_STACK_FILE##*/}" --file "$PWD/$WHY_STACK_FILE")

# GitHub downloads the whole repository of an action. The packages have the hashes of its lock.
make --silent -C "$ROOT" .venv/run
sleep "$((10#$WHY_MINUTES * 60))"
status=0
"$ROOT/.venv/bin/gpu-ci" why --markdown "${words[@]}" -- "${WHY_TARGET:-$target}" >>"${GITHUB_STEP_SUMMARY:?}" || status=$?
if [[ $status -eq 1 ]]; then
  printf '::warning title=why-waiting::a job is stuck; the summary says why\n'
  status=0
fi
exit "$status"
