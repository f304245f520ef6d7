#!/bin/bash
# Creates a kind cluster that has this machine's GPUs, with NVIDIA's operator and Kubeflow Trainer in it, and proves that a pod
# sees a GPU. action.yml passes the settings as environment variables. On any failure one line names the step and the fix, the
# step sets no outputs, and the cluster of this run is deleted. The script does not change the machine itself: no sudo, no
# configuration.
set -Eeuo pipefail
umask 077

HERE="$(cd "${BASH_SOURCE[0]%/*}" && pwd)"
RUNTIME_CLASS=nvidia # nvkind creates it, and the operator keeps it
NAMESPACE=kubeflow-system
RUNTIMES=clustertrainingruntimes.trainer.kubeflow.org
TOOLKIT_PACKAGES=(nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1)

step=start
reason=
created= # whether a cluster of this run may exist

# A line that GitHub shows on the page of the run.
annotate() {
  local text="${2//'%'/%25}"
  text="${text//$'\r'/%0D}"
  printf '::%s title=kubeflow-gpu-cluster::%s\n' "$1" "${text//$'\n'/%0A}"
}

# Every exit goes through here: print the state of the cluster, delete it, print one line with the error.
finish() {
  local code=$?
  trap '' TERM INT
  trap - EXIT ERR
  set +e
  if [[ $step == 'done' && $code -eq 0 ]]; then exit 0; fi
  [[ $code -ne 0 ]] || code=1
  if [[ $created ]]; then
    printf '::group::State of the cluster\n'
    timeout 60 kubectl get nodes,pods --all-namespaces --output=wide
    timeout 60 kubectl get events --all-namespaces --sort-by=.lastTimestamp
    printf '::endgroup::\n'
    timeout 300 kind delete cluster --name "$CLUSTER"
  fi
  annotate error "step $step: ${reason:-ended with $code}"
  exit "$code"
}
trap finish EXIT
trap 'reason="${reason:-line $LINENO: $BASH_COMMAND}"' ERR
trap 'reason="terminated by a signal"; exit 143' TERM INT

fail() {
  reason="$1"
  exit 1
}

begin() {
  step="$1"
  printf 'kubeflow-gpu-cluster step=%s\n' "$step"
}

# attempt TIMES PAUSE COMMAND...: run the command up to TIMES times until it succeeds, with PAUSE seconds between the tries.
attempt() {
  local times="$1" pause="$2" try
  shift 2
  for ((try = 1; try <= times; try++)); do
    if "$@"; then return 0; fi
    if [[ $try -lt $times ]]; then sleep "$pause"; fi
  done
  return 1
}

# The cause and fix of a known failure of nvkind, from its output; empty for an unknown failure.
known() {
  case "$1" in
    *'umount: /proc/driver/nvidia: not mounted'*)
      printf 'toolkit 1.18 no longer mounts there (NVIDIA/nvkind#61); %s' "$(fix_toolkit)" ;;
    *nvidia-container-runtime*'not found'* | *nvidia-container-runtime*'no such file'* | *'unknown or invalid runtime name'*)
      printf 'nvidia-container-runtime not found; %s' "$(fix_runtime)" ;;
    *'containerd.service failed'* | *'Job for containerd.service'*)
      printf 'the kind node rejects the configuration of this toolkit (NVIDIA/aicr#1237); do not change node-toolkit' ;;
    *toomanyrequests*)
      printf 'the registry limits pulls; run the job again later, or set node-image to a mirror' ;;
    *'too many open files'*)
      printf 'the machine allows too few inotify instances; sudo sysctl -w fs.inotify.max_user_instances=8192' ;;
  esac
}

fix_toolkit() {
  printf 'on the machine: sudo apt-get install --yes --allow-downgrades %s' "${TOOLKIT_PACKAGES[*]/%/=$TOOLKIT}"
}

fix_runtime() {
  printf '%s' "install the four packages of NVIDIA's own archive (a distribution's may lack it, NVIDIA/nvkind#57), then: " \
    'sudo nvidia-ctk config --set accept-nvidia-visible-devices-as-volume-mounts=true --in-place; ' \
    'sudo nvidia-ctk runtime configure --runtime=docker --set-as-default; sudo systemctl restart docker'
}

: "${RUNNER_TEMP:?}" "${CLUSTER:?}" "${NODE_IMAGE:?}" "${NODE_TOOLKIT:?}" "${TOOLKIT:?}" "${TOOLKITS:?}" \
  "${DRIVER_BRANCH:?}" "${OPERATOR:?}" "${OPERATOR_REPOSITORY:?}" "${TRAINER:?}" "${SMOKE_IMAGE:?}" \
  "${GITHUB_OUTPUT:?}" "${GITHUB_STEP_SUMMARY:?}"
[[ $CLUSTER =~ ^[a-z]([a-z0-9-]*[a-z0-9])?$ ]] || fail "cluster-name $CLUSTER is not a DNS label"
[[ $TRAINER =~ ^[0-9a-f]{40}$ ]] || fail "trainer $TRAINER is not a full commit; a tag can move"
STATE="$RUNNER_TEMP/kubeflow-gpu-cluster/$CLUSTER"
mkdir -p "$STATE"
export KUBECONFIG="$STATE/kubeconfig"

begin tools
for tool in docker git helm jq kind kubectl nvidia-ctk nvidia-smi nvkind timeout; do
  command -v "$tool" >/dev/null || fail "$tool not found; run the job on a machine that has it (a set with nvkind: true)"
done
command -v nvidia-container-runtime >/dev/null || fail "nvidia-container-runtime not found; $(fix_runtime)"

begin driver
drivers="$(timeout 60 nvidia-smi --query-gpu=driver_version --format=csv,noheader)" \
  || fail "nvidia-smi finds no driver: the machine has no GPU, or its kernel module is not loaded"
uuids="$(timeout 60 nvidia-smi --query-gpu=uuid --format=csv,noheader)" || fail "nvidia-smi names no GPU"
driver="${drivers%%$'\n'*}"
gpus=0
while IFS= read -r each; do
  [[ $each =~ ^[0-9]+\.[0-9.]+$ ]] || fail "nvidia-smi names no driver: $each"
  [[ ${each%%.*} -ge $DRIVER_BRANCH ]] || fail "driver $each is older than branch $DRIVER_BRANCH; use a newer image"
  gpus=$((gpus + 1))
done <<<"$drivers"
printf '%s GPUs, driver %s\n' "$gpus" "$driver"

begin toolkit
said="$(timeout 60 nvidia-ctk --version)" || fail "nvidia-ctk does not run; $(fix_toolkit)"
[[ $said =~ version\ ([0-9]+\.[0-9]+)\.([0-9]+) ]] || fail "nvidia-ctk names no version: $said"
minor="${BASH_REMATCH[1]}"
toolkit="$minor.${BASH_REMATCH[2]}"
[[ " $TOOLKITS " == *" $minor "* ]] || fail "the pinned nvkind works with toolkit $TOOLKITS, not $toolkit; $(fix_toolkit)"

begin runtime
default="$(timeout 60 docker info --format '{{.DefaultRuntime}}')" || fail "docker does not answer; is the user in group docker?"
[[ $default == nvidia ]] || fail "docker's default runtime is $default, not nvidia; $(fix_runtime)"
attempt 3 20 timeout 300 docker pull --quiet "$SMOKE_IMAGE" || fail "$SMOKE_IMAGE cannot be pulled; check the machine's internet access"
# kind nodes get their GPUs in the same way.
seen="$(timeout 120 docker run --rm --network=none --volume /dev/null:/var/run/nvidia-container-devices/all \
  "$SMOKE_IMAGE" nvidia-smi -L)" || fail "a container cannot start with GPUs; $(fix_runtime)"
for uuid in $uuids; do
  [[ $seen == *"$uuid"* ]] || fail "a container does not see $uuid; $(fix_runtime)"
done

begin cluster
clusters="$(timeout 60 kind get clusters --quiet)" || fail "kind cannot list its clusters"
[[ $'\n'$clusters$'\n' != *$'\n'$CLUSTER$'\n'* ]] || fail "a cluster $CLUSTER exists already; set another cluster-name, or delete it"
# nvkind installs the newest toolkit of NVIDIA's archive in each node. This file makes the pinned one its newest.
printf 'Package: %s\nPin: version %s\nPin-Priority: 1001\n' "${TOOLKIT_PACKAGES[*]}" "$NODE_TOOLKIT" >"$STATE/preferences"
chmod 0644 "$STATE/preferences"
jq --null-input --arg preferences "$STATE/preferences" '{$preferences}' >"$STATE/values.yaml"
create() {
  created=yes
  if timeout --kill-after=30 900 nvkind cluster create --name "$CLUSTER" --image "$NODE_IMAGE" \
    --config-template "$HERE/cluster.yaml.tmpl" --config-values "$STATE/values.yaml" 2>&1 | tee "$STATE/nvkind.log"; then
    return 0
  fi
  timeout 300 kind delete cluster --name "$CLUSTER" && created=
  return 1
}
if ! attempt 2 20 create; then
  cause="$(known "$(<"$STATE/nvkind.log")")"
  cause="${cause:-$(tail -n 1 "$STATE/nvkind.log")}"
  fail "Failed to create Kind cluster with GPU support: ${cause:-nvkind gave no reason}"
fi

begin nodes
timeout 330 kubectl wait nodes --all --for=condition=Ready --timeout=300s || fail "the nodes are not ready within five minutes"
inside="$(timeout 60 nvkind cluster print-gpus --name "$CLUSTER" | jq --raw-output '.[].gpus[].UUID')" \
  || fail "the kind nodes show no GPUs"
inside="$(sort <<<"$inside")"
outside="$(sort <<<"$uuids")"
[[ $inside == "$outside" ]] || fail "the kind nodes have other GPUs than the machine: $inside"
said="$(timeout 60 docker exec "$CLUSTER-worker" nvidia-ctk --version)" || fail "the kind node has no container toolkit"
[[ $said == *"version ${NODE_TOOLKIT%-*}"* ]] || fail "the kind node has another toolkit than $NODE_TOOLKIT: $said"

begin operator
# The machine has the driver, and nvkind installs the toolkit (fleet/facts/data/nodes.toml, images.nvkind). nvidia is not the default runtime of
# the nodes, so pods get their GPUs by CDI or by the runtime class.
attempt 3 30 timeout 660 helm upgrade --install gpu-operator gpu-operator --repo "$OPERATOR_REPOSITORY" --version "$OPERATOR" \
  --namespace gpu-operator --create-namespace --wait --timeout 10m \
  --set driver.enabled=false --set toolkit.enabled=false --set cdi.enabled=true --set dcgmExporter.enabled=false \
  || fail "the GPU operator $OPERATOR does not become ready; its pods are listed above"

begin capacity
advertised() {
  local found
  found="$(timeout 30 kubectl get nodes --output=json \
    | jq '[.items[].status.allocatable["nvidia.com/gpu"] // "0" | tonumber] | add')" || return 1
  [[ $found == "$gpus" ]]
}
attempt 40 15 advertised || fail "the nodes do not offer the machine's $gpus GPUs; the pods of gpu-operator are listed above"

begin trainer
source="https://github.com/kubeflow/trainer.git/manifests/overlays"
attempt 3 20 timeout 400 kubectl apply --server-side --kustomize "$source/manager?ref=$TRAINER&timeout=300s" \
  || fail "Kubeflow Trainer cannot be installed from $TRAINER; check the access to github.com"
timeout 630 kubectl --namespace "$NAMESPACE" wait deployments --all --for=condition=Available --timeout=600s \
  || fail "Kubeflow Trainer is not ready within ten minutes; its pods are listed above"
# Its webhook answers a little later than the deployment is available.
attempt 6 10 timeout 400 kubectl apply --server-side --kustomize "$source/runtimes?ref=$TRAINER&timeout=300s" \
  || fail "the runtimes of Kubeflow Trainer cannot be installed"

begin runtimes
patches() {
  timeout 60 kubectl get "$RUNTIMES" --output=json \
    | jq --raw-output --arg class "$RUNTIME_CLASS" --from-file "$HERE/runtime-class.jq"
}
timeout 60 kubectl get runtimeclasses "$RUNTIME_CLASS" || fail "there is no RuntimeClass $RUNTIME_CLASS, which nvkind creates"
names="$(timeout 60 kubectl get "$RUNTIMES" --output=name)" || fail "the ClusterTrainingRuntimes cannot be read"
[[ $names ]] || fail "there is no ClusterTrainingRuntime; is $TRAINER a commit whose overlays have runtimes?"
found="$(patches)" || fail "the ClusterTrainingRuntimes cannot be read"
while IFS=$'\t' read -r name patch; do
  [[ $name ]] || continue
  timeout 60 kubectl patch "$RUNTIMES" "$name" --type=json --patch "$patch" || fail "$name cannot be patched with the runtime class"
done <<<"$found"
left="$(patches)" || fail "the ClusterTrainingRuntimes cannot be read"
[[ ! $left ]] || fail "runtimes without the runtime class: $left"

begin smoke
# jq itself fills in $class and $image.
# shellcheck disable=SC2016
jq --arg image "$SMOKE_IMAGE" --arg class "$RUNTIME_CLASS" \
  '.spec.template.spec |= (.runtimeClassName = $class | .containers[0].image = $image)' "$HERE/smoke.json" >"$STATE/smoke.json"
timeout 60 kubectl create --filename="$STATE/smoke.json" || fail "the smoke test is not admitted"
ended() {
  local state
  state="$(timeout 30 kubectl get job gpu-smoke --output='jsonpath={.status.succeeded}/{.status.failed}')" || return 1
  [[ $state != / ]]
}
attempt 25 15 ended || fail "the smoke test neither ends nor fails; its pod is listed above"
seen="$(timeout 60 kubectl logs job/gpu-smoke)" || fail "the smoke test has no log"
visible=
for uuid in $uuids; do
  if [[ $seen == *"$uuid"* ]]; then visible="$visible $uuid"; fi
done
[[ $visible ]] || fail "a pod that asks for a GPU sees none of the machine's GPUs: $seen"

{
  printf '| kind cluster | %s |\n|---|---|\n' "$CLUSTER"
  printf '| GPUs | %s, driver %s |\n' "$gpus" "$driver"
  printf '| container toolkit | %s on the machine, %s in the nodes |\n' "$toolkit" "$NODE_TOOLKIT"
  printf '| GPU operator | %s |\n| Kubeflow Trainer | %s |\n' "$OPERATOR" "$TRAINER"
  printf '| a pod sees |%s |\n' "$visible"
} >>"$GITHUB_STEP_SUMMARY"
printf 'kubeconfig=%s\ngpus=%s\n' "$KUBECONFIG" "$gpus" >>"$GITHUB_OUTPUT"
step='done'
