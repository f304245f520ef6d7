# shellcheck shell=bash disable=SC2153,SC2154
# On the machine that built the image: what must be on its disk.
rpm -q "nvidia-container-toolkit-$TOOLKIT" nvtop nvidia-persistenced
for service in nvidia-kmod-load nvidia-persistenced set-nvidia-clocks; do
  systemctl is-enabled "$service"
done
if systemctl is-enabled nvidia-dcgm; then
  echo "the service nvidia-dcgm is enabled; nodes run another engine" >&2
  exit 1
fi
for module in nvidia nvidia-open; do
  ls "/var/lib/dkms-archive/$module/"*.tar.gz
done
if dkms status | grep '^nvidia'; then
  echo "the kernel module of the build machine is still installed" >&2
  exit 1
fi
