#!/bin/bash
# Makes a runner for one job of an OCI machine with an NVIDIA driver, and powers the machine off after it. cloud-init runs this
# once, as root, with the settings that it wrote; they hold no secret. Whatever fails, no runner registers (the job's
# registration is read and used in the last steps only), one line tells the step, and the machine powers off. A machine that boots
# a second time powers off at once. Ubuntu 24.04 or newer. Plain ASCII: cloud-init 26.1 was seen to drop other user data.
set -Eeuo pipefail
umask 022

ROOT="${GPU_CI_ROOT:-}" # of every path below; empty on a machine
SETTINGS="${GPU_CI_SETTINGS:-$ROOT/etc/gpu-ci/bootstrap.env}"
STATE="$ROOT/var/lib/gpu-ci"
WORK="$STATE/work"
RUNNER_HOME="$ROOT/home/runner"
RUNNER_LOG="$STATE/runner.log"
KEYRING=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg
# Of the key at https://nvidia.github.io/libnvidia-container/gpgkey.
NVIDIA_FINGERPRINT=C95B321B61E88C1809C4F759DDCAE044F796ECB0
TOOLKIT_PACKAGES=(nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1)
IMDS4=169.254.169.254
IMDS6=fd00:c1::a9fe:a9fe
BOOT_MINUTES=40 # from here to the job, or to where a standing machine waits for one
HARD_MINUTES=45
BOOT_TIMERS=(gpu-ci-boot-deadline gpu-ci-boot-end)
export DEBIAN_FRONTEND=noninteractive

step=start
reason=
pushes=

# A line on the serial console, where the launcher reads it.
tell() {
  { printf '\n%s\n' "$1" >>"$ROOT/dev/console"; } 2>/dev/null || :
}

# The one way out: one status line, then power off.
finish() {
  local code=$? status=failed line
  trap '' TERM
  trap - EXIT ERR
  set +e
  if [[ $step == 'done' && $code -eq 0 ]]; then status='done'; fi
  if [[ -e $STATE/deadline ]]; then reason=deadline; fi
  reason="${reason//[^A-Za-z0-9._,:\/-]/_}"
  line="gpu-ci status=$status step=$step code=$code${reason:+ reason=${reason:0:120}}"
  if [[ ! -e $STATE/status ]]; then
    { printf '%s\n' "$line" >"$STATE/status"; } 2>/dev/null
    tell "$line"
  fi
  # The agent sends its last samples within its flush deadline.
  if [[ $pushes ]]; then timeout 40 docker stop -t 30 gpu-ci-agent; fi
  systemctl poweroff
  exit "$code"
}
trap finish EXIT
trap 'reason="${reason:-line $LINENO${FUNCNAME[0]:+ called at ${BASH_LINENO[0]}}}"' ERR
trap 'exit 143' TERM

fail() {
  reason="$1"
  exit 1
}

begin() {
  step="$1"
  printf 'gpu-ci step=%s\n' "$step"
  tell "gpu-ci step=$step"
}

# A running machine costs money, so nothing may hang forever. The first timer ends this script through its exit trap. It also kills
# the script's processes, because bash handles a signal only after its current command. The second timer powers off in any case.
limit_boot() {
  # shellcheck disable=SC2016
  local below='end() { for pid in $(pgrep -P "$1"); do (end "$pid"); kill -KILL "$pid"; done; }'
  # shellcheck disable=SC2016
  systemd-run --quiet --on-active="${BOOT_MINUTES}m" --unit="${BOOT_TIMERS[0]}" \
    /bin/sh -c "$below"'; : >"$2"; kill -TERM "$1"; end "$1"' sh "$$" "$STATE/deadline"
  systemd-run --quiet --on-active="${HARD_MINUTES}m" --unit="${BOOT_TIMERS[1]}" systemctl poweroff --force --force
}

booted() {
  systemctl stop "${BOOT_TIMERS[@]/%/.timer}"
}

# nvidia-smi must print the expected value once for each GPU of the shape.
each_gpu() {
  local field="$1" expected="$2" answer value count=0
  answer="$(nvidia-smi --query-gpu="$field" --format=csv,noheader)"
  while IFS= read -r value; do
    [[ $value == "$expected" ]] || fail "$field is $value, not $expected"
    count=$((count + 1))
  done <<<"$answer"
  [[ $count -eq $GPUS ]] || fail "$count GPUs, not $GPUS"
}

# Waits until apt's lock is free.
get() {
  apt-get -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@"
}

# DPkg::Lock::Timeout does not cover the lock of the package lists, so this command would fail at once.
lists() {
  local try
  for try in 1 2 3; do
    if get update; then return; fi
    if [[ $try -lt 3 ]]; then sleep 20; fi
  done
  fail "apt-get update failed three times"
}

# quiet UNIT: stops it, if the image has it.
quiet() {
  local code=0
  systemctl stop "$1" || code=$?
  # systemctl returns 5 for a unit that does not exist.
  [[ $code -eq 0 || $code -eq 5 ]] || fail "$1 does not stop: $code"
}

# download URL SHA256 FILE
download() {
  curl --fail --silent --show-error --location --proto '=https' --retry 3 --max-time 600 --output "$3" "$1"
  printf '%s  %s\n' "$2" "$3" | sha256sum --check --quiet
}

# closed COMMAND...: the command is curl, and it could not connect.
closed() {
  local code=0
  "$@" || code=$?
  case $code in
    7 | 28) ;; # refused, timed out
    0) fail "metadata endpoint answers" ;;
    *) fail "check of the metadata endpoint ended with $code" ;;
  esac
}

# Starts the DCGM exporter, and an agent that pushes what it reads. Both listen on loopback. The launcher wrote into the metadata
# where to push; without that key, in other networks than the cluster's, nothing is pushed. The gateway sets the other labels.
push() {
  local url name=${HOSTNAME:0:63}
  url="$(curl --silent --fail --noproxy '*' --max-time 10 --header 'Authorization: Bearer Oracle' \
    "http://$IMDS4/opc/v2/instance/metadata/gpu-ci-metrics")" &&
    [[ $url =~ ^http://[0-9.]+:[0-9]+/api/v1/write$ ]] &&
    printf '{"global": {"scrape_interval": "15s"}, "scrape_configs": [{"job_name": "dcgm", "static_configs": [{"targets": ["%s"],
 "labels": {"instance": "%s"}}]}], "remote_write": [{"url": "%s"}]}\n' 127.0.0.1:9400 "${name//[^A-Za-z0-9-]/-}" "$url" \
      >"$STATE/agent.json" &&
    timeout 300 docker pull --quiet "$EXPORTER_IMAGE" && timeout 300 docker pull --quiet "$AGENT_IMAGE" &&
    docker run --detach --name gpu-ci-exporter --network host --gpus all --cap-add SYS_ADMIN \
      --volume "$ROOT/etc/gpu-ci/counters.csv:/counters.csv:ro" --env DCGM_EXPORTER_LISTEN=127.0.0.1:9400 \
      --env DCGM_EXPORTER_COLLECTORS=/counters.csv --env DCGM_EXPORTER_INTERVAL=15000 "$EXPORTER_IMAGE" &&
    docker run --detach --name gpu-ci-agent --network host --volume "$STATE/agent.json:/agent.json:ro" "$AGENT_IMAGE" \
      --agent --config.file=/agent.json --web.listen-address=127.0.0.1:9401 --storage.remote.flush-deadline=20s
}

if [[ -e $STATE/started ]]; then
  step=reboot
  fail "this machine was started before"
fi
install -d -m 0755 "$STATE"
: >"$STATE/started"
limit_boot
install -d -m 0700 "$WORK"
# shellcheck source=/dev/null
. "$SETTINGS"
: "${DRIVER:?}" "${GPUS:?}" "${TOOLKIT:?}" "${RUNNER_IMAGE:?}" "${NVKIND?}" "${STANDING?}" "${USD_PER_HOUR?}" "${EXPORTER_IMAGE?}"

begin driver
each_gpu driver_version "$DRIVER"

begin persistence
nvidia-smi -pm 1
each_gpu persistence_mode Enabled

begin packages
# Background updates would hold apt's lock, and could change the driver of a machine that waits for a job.
systemctl mask --now apt-daily.timer apt-daily-upgrade.timer
for unit in apt-daily.service apt-daily-upgrade.service unattended-upgrades.service; do
  quiet "$unit"
done
lists
get install --yes --no-install-recommends ca-certificates curl docker-buildx docker.io git gnupg iptables jq sudo

begin toolkit
curl --fail --silent --show-error --location --proto '=https' --retry 3 --max-time 60 \
  --output "$WORK/nvidia.asc" https://nvidia.github.io/libnvidia-container/gpgkey
keys="$(gpg --batch --homedir "$WORK" --show-keys --with-colons "$WORK/nvidia.asc")"
primary=
found=
while IFS=: read -r kind _ _ _ _ _ _ _ _ value _; do
  case $kind in
    pub) primary=yes ;;
    sub) primary= ;;
    fpr) if [[ $primary ]]; then found="$found$value"; fi ;;
  esac
done <<<"$keys"
[[ $found == "$NVIDIA_FINGERPRINT" ]] || fail "another key signs the toolkit: $found"
gpg --batch --yes --homedir "$WORK" --output "$ROOT$KEYRING" --dearmor "$WORK/nvidia.asc"
# apt itself fills in $(ARCH).
# shellcheck disable=SC2016
printf 'deb [signed-by=%s] https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /\n' "$KEYRING" \
  >"$ROOT/etc/apt/sources.list.d/nvidia-container-toolkit.list"
lists
get install --yes --allow-downgrades "${TOOLKIT_PACKAGES[@]/%/=$TOOLKIT}"
apt-mark hold "${TOOLKIT_PACKAGES[@]}"
held="$(apt-mark showhold)"
for package in "${TOOLKIT_PACKAGES[@]}"; do
  # dpkg-query itself fills in ${Version}.
  # shellcheck disable=SC2016
  version="$(dpkg-query --show --showformat='${Version}' "$package")"
  [[ $version == "$TOOLKIT" ]] || fail "$package is $version, not $TOOLKIT"
  [[ $'\n'$held$'\n' == *$'\n'$package$'\n'* ]] || fail "$package is not held"
done

begin runtime
nvidia-ctk config --config-file="$ROOT/etc/nvidia-container-runtime/config.toml" \
  --set accept-nvidia-visible-devices-as-volume-mounts=true --in-place
nvidia-ctk runtime configure --runtime=docker --set-as-default --config="$ROOT/etc/docker/daemon.json"
# Newer Docker releases bring CDI devices of their own. nvidia-ctk has no word for off.
jq '.features = (.features // {}) + {"cdi": false}' "$ROOT/etc/docker/daemon.json" >"$WORK/daemon.json"
mv "$WORK/daemon.json" "$ROOT/etc/docker/daemon.json"
systemctl restart docker
runtime="$(docker info --format '{{.DefaultRuntime}}')"
[[ $runtime == nvidia ]] || fail "docker's default runtime is $runtime"

if [[ $NVKIND ]]; then
  begin tools
  get install --yes --no-install-recommends build-essential golang-go
  download "$KUBECTL_URL" "$KUBECTL_SHA256" "$WORK/kubectl"
  install -m 0755 "$WORK/kubectl" "$ROOT/usr/local/bin/kubectl"
  download "$HELM_URL" "$HELM_SHA256" "$WORK/helm.tar.gz"
  tar -xzf "$WORK/helm.tar.gz" -C "$WORK" linux-amd64/helm
  install -m 0755 "$WORK/linux-amd64/helm" "$ROOT/usr/local/bin/helm"
  download "$KIND_URL" "$KIND_SHA256" "$WORK/kind"
  install -m 0755 "$WORK/kind" "$ROOT/usr/local/bin/kind"
  # The commit, its modules and the Go that builds them are held to the checksum database.
  env HOME="$WORK" GOPATH="$WORK/go" GOBIN="$ROOT/usr/local/bin" GOTOOLCHAIN="go$GO" GOFLAGS=-modcacherw \
    GOPROXY=https://proxy.golang.org,direct GOSUMDB=sum.golang.org GONOSUMDB= GOPRIVATE= \
    go install "github.com/NVIDIA/nvkind/cmd/nvkind@$NVKIND"
fi

begin runner
docker pull --quiet "$RUNNER_IMAGE"
useradd --create-home --home-dir "$RUNNER_HOME" --shell /bin/bash --groups docker runner
# A job may use sudo as on GitHub's own machines: this one has no rights in the cloud and lives for one job.
printf 'runner ALL=(ALL) NOPASSWD:ALL\n' >"$ROOT/etc/sudoers.d/runner"
chmod 0440 "$ROOT/etc/sudoers.d/runner"
container="$(docker create "$RUNNER_IMAGE" true)"
docker cp "$container:/home/runner/." "$RUNNER_HOME"
docker rm "$container"
chown -R runner:runner "$RUNNER_HOME"
"$RUNNER_HOME/bin/installdependencies.sh"

begin container
seen="$(docker run --rm --network=none --volume /dev/null:/var/run/nvidia-container-devices/all "$RUNNER_IMAGE" nvidia-smi -L)"
count=0
while IFS= read -r line; do
  if [[ $line == 'GPU '* ]]; then count=$((count + 1)); fi
done <<<"$seen"
[[ $count -eq $GPUS ]] || fail "a container sees $count GPUs, not $GPUS"
rm -rf "$WORK"

if [[ $EXPORTER_IMAGE ]]; then
  begin metrics
  # A machine without metrics runs its job all the same.
  if push; then pushes=yes; else tell "gpu-ci metrics=none code=$?"; fi
fi

begin registration
# A standing machine waits here for days.
if [[ $STANDING ]]; then booted; fi
# The launcher puts the registration there when it gives this machine a job. Until then the key does not exist.
misses=0
jit=
while [[ -z $jit ]]; do
  reply="$(curl --silent --noproxy '*' --max-time 10 --write-out '\n%{http_code}' --header 'Authorization: Bearer Oracle' \
    "http://$IMDS4/opc/v2/instance/metadata/gpu-ci-jit")" || reply=
  case ${reply##*$'\n'} in
    200)
      jit="${reply%$'\n'*}"
      jit=${jit//[$'"\r\n']/}
      ;;
    404) misses=0 ;;
    *) misses=$((misses + 1)) ;;
  esac
  reply=
  [[ $misses -lt 60 ]] || fail "the metadata endpoint does not answer"
  if [[ -z $jit ]]; then sleep 5; fi
done
[[ $jit =~ ^[A-Za-z0-9+/=_-]+$ ]] || fail "what the launcher wrote is no registration"

begin metadata
# From here on nobody on the machine reaches it: not the host, not a container. Names, time and disks use other ports.
for chain in OUTPUT DOCKER-USER; do
  iptables --wait -I "$chain" 1 -d "$IMDS4" -p tcp --dport 80 -j REJECT --reject-with tcp-reset
done
# Docker before 27 makes no chain of its own for IPv6.
for chain in OUTPUT FORWARD; do
  ip6tables --wait -I "$chain" 1 -d "$IMDS6" -p tcp --dport 80 -j REJECT --reject-with tcp-reset
done
ask=(curl --silent --output /dev/null --noproxy '*' --max-time 5 --header 'Authorization: Bearer Oracle')
closed "${ask[@]}" "http://$IMDS4/opc/v2/instance/"
closed "${ask[@]}" "http://[$IMDS6]/opc/v2/instance/"
closed docker run --rm "$RUNNER_IMAGE" "${ask[@]}" "http://$IMDS4/opc/v2/instance/"

begin job
if [[ ! $STANDING ]]; then booted; fi
# In the environment, where the runner takes it out again (actions/runner, CommandSettings.cs). Arguments are everybody's to read.
: >"$RUNNER_LOG"
(
  cd "$RUNNER_HOME"
  export GPU_CI_USD_PER_HOUR="$USD_PER_HOUR" # for the action job-cost
  export ACTIONS_RUNNER_INPUT_JITCONFIG="$jit" HOME="$RUNNER_HOME" USER=runner LOGNAME=runner LANG=C.UTF-8
  unset jit DEBIAN_FRONTEND
  exec setpriv --reuid=runner --regid=runner --init-groups ./run.sh
) >>"$RUNNER_LOG" 2>&1 &
unset jit
code=0
wait "$!" || code=$?
[[ $code -eq 0 ]] || { reason="run.sh ended with $code"; exit "$code"; }
# run.sh ends with 0 even where no job came.
ran="$(<"$RUNNER_LOG")"
[[ $ran == *'Running job: '* ]] || fail "no job ran"
step='done'
