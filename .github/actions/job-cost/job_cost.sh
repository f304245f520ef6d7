#!/bin/bash
# Writes the cost of the job so far into the job's summary. It uses no network and never fails the job: without a price or a start
# time, a notice says so. GPU_CI_USD_PER_HOUR is the price of the runner's part of its machine, "0.376" or a range "0.188-0.376".
set -euo pipefail

PROC="${GPU_CI_PROC:-/proc}" # another folder in tests

without() {
  printf '::notice title=job-cost::%s\n' "$1"
  exit 0
}

# The seconds since the runner started this job: the age of Runner.Worker, the process above this one that runs a single job.
age() {
  local pid=self line name up fields
  while :; do
    read -r line <"$PROC/$pid/stat" || return 1
    name="${line#*(}"
    # After the name: state, parent and, 18 fields later, the start in hundredths of a second since boot (man 5 proc_pid_stat).
    read -ra fields <<<"${line##*) }"
    if [[ ${name%)*} == Runner.Worker ]]; then break; fi
    pid="${fields[1]}"
    [[ $pid -gt 0 ]] || return 1
  done
  read -r up _ <"$PROC/uptime"
  printf '%s' "$((${up%.*} - fields[19] / 100))"
}

price="${GPU_CI_USD_PER_HOUR-}"
number='[0-9]+(\.[0-9]+)?'
[[ $price =~ ^$number(-$number)?$ ]] || without "the runner does not know its price, so the cost of the job is unknown"
seconds="$(age)" || without "the start of the job is unknown here, for example in a job with a container, and so is its cost"

# The lower end 0 means that only an upper bound of the price is known.
row="$(LC_ALL=C awk -v seconds="$seconds" -v from="${price%-*}" -v to="${price#*-}" '
  function range(low, high) { return low == high ? high : low + 0 == 0 ? "at most " high : low " to " high }
  function usd(price) { return sprintf("%.4f", price * seconds / 3600) }
  BEGIN { printf "%d min %d s | %s | %s", seconds / 60, seconds % 60, range(from, to), range(usd(from), usd(to)) }')"
cat >>"${GITHUB_STEP_SUMMARY:?}" <<TABLE
### Cost of this job

| Job | Time | USD per hour | USD |
| --- | ---: | ---: | ---: |
| ${GITHUB_JOB:?} | $row |

The price is that of the GPUs which this runner holds. Waiting for the runner is not included, nor are steps after this one.

TABLE
printf 'Cost of this job: %s\n' "$row"
