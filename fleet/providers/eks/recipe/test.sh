# shellcheck shell=bash disable=SC2153,SC2154
# On a machine that booted the new image, before the image is released: the driver runs the GPU. set-nvidia-clocks waits for the
# kernel module and for persistence mode.
systemctl start set-nvidia-clocks
nvidia-smi
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | sort -u)
if [[ $driver != "$DRIVER"* ]]; then
  echo "the driver is $driver, not $DRIVER" >&2
  exit 1
fi
modes=$(nvidia-smi --query-gpu=persistence_mode --format=csv,noheader | sort -u)
if [[ $modes != Enabled ]]; then
  echo "persistence mode is $modes" >&2
  exit 1
fi
nvidia-ctk --version | grep -F "version ${TOOLKIT%-*}"
nvtop --version

# Level 1 takes seconds. The engine needs a moment before it answers.
systemctl start nvidia-dcgm
for _ in 1 2 3 4 5 6 7 8 9 10; do
  if dcgmi discovery --list; then
    break
  fi
  sleep 3
done
dcgmi diag --run 1

systemctl start containerd
present=$(ctr --namespace k8s.io images ls --quiet)
for image in $IMAGES; do
  grep -Fx "$image" <<< "$present"
done
