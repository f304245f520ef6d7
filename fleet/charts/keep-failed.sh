#!/bin/bash
# Runs after the last step of a job, instead of the image's own hook, which it starts first. Then it keeps the pod of a failed job.
# The job lasts as long as this script. A status other than 0 fails the job, so it ends with 0. The runner calls it with `bash -e`.
set -uo pipefail +e
trap 'exit 0' TERM INT

own=/opt/gpu-ci/hooks/job-completed.sh
if [[ -f $own ]]; then
  bash "$own"
fi

# The job may have put programs of its own before these.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# GitHub gives a hook no result. The runner's log has it after each step (actions/runner 2.336.0, StepsRunner.cs). A long log has
# several files, whose names have their time. Without a line of this form no job is kept.
state=$(grep -hE "^\[[^]]* INFO StepsRunner\] Current state: job state = '[A-Za-z]*'$" /home/runner/_diag/Worker_*.log 2>/dev/null | tail -n 1)
end=/tmp/gpu-ci-done
if [[ $state != *"'Failed'" || -e $end ]]; then
  exit 0
fi

inside="kubectl exec --namespace $GPU_CI_NAMESPACE $GPU_CI_POD --container runner"
printf -v now '%(%s)T' -1
TZ=UTC0 printf -v until '%(%H:%M:%S)T' $((now + GPU_CI_KEEP_SECONDS))
SECONDS=0
printf 'The job failed. Its pod stays until %s UTC, for members of the Kubernetes group %s.\n' "$until" "$GPU_CI_KEEP_GROUP"
printf 'Look inside:       %s --stdin --tty -- bash\n' "$inside"
printf 'End it before:     %s -- touch %s\n' "$inside" "$end"
while ((SECONDS < GPU_CI_KEEP_SECONDS)) && [[ ! -e $end ]]; do
  sleep 1
done
exit 0
