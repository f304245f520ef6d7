#!/bin/bash
# Audits or plans, and writes the job's summary, annotations and SARIF. Exit status: that of gpu-ci, 2 for a wrong input.
set -euo pipefail

site="${RUNNER_TEMP:?}/gpu-ci"
report="$site/report.md"
path="${GPU_CI_PATH:?}" stack="${GPU_CI_STACK-}" sarif="${GPU_CI_SARIF-}"

refuse() {
  printf '::error title=gpu-ci::%s\n' "$1"
  exit 2
}
run() {
  # No module of the current folder, which belongs to the pull request.
  PYTHONPATH="$site/program" "$site/bin/python" -P -m gpu_ci "$@"
}

status=0
case ${GPU_CI_COMMAND-} in
  audit)
    [[ -z $stack ]] || refuse 'stack is for plan alone; remove it, or write command: plan'
    run audit --format markdown -- "$path" >"$report" || status=$?
    # Wrong input has one line, and no findings.
    [[ $status -le 1 ]] || refuse 'audit could not read the path; the log says why'
    run audit --format annotations -- "$path" || true
    [[ -z $sarif ]] || run audit --format sarif -- "$path" >"$sarif" || true
    ;;
  plan)
    [[ -n $stack ]] || refuse 'plan needs stack; write its name, such as prod'
    [[ -z $sarif ]] || refuse 'sarif is for audit alone; remove it'
    cd -- "$path"
    run plan --markdown --annotations -- "$stack" >"$report" || status=$?
    ;;
  *) refuse 'command must be audit or plan' ;;
esac
cat "$report" >>"${GITHUB_STEP_SUMMARY:?}"
exit "$status"
