# shellcheck shell=bash disable=SC2153,SC2154
# At boot the machine installed the kernel module for its own GPU, and g4dn and g5 switched off GPU firmware (nvidia-kmod-load.sh).
# In the AMI both would meet other GPUs. The archives of all modules stay, and each node installs its own at its first boot.
for module in nvidia nvidia-open nvidia-open-grid; do
  if [[ -d /var/lib/dkms/$module ]]; then
    kmod-util remove "$module"
  fi
done
rm -rf /usr/src/nvidia*
rm -f /etc/modprobe.d/nvidia-disable-gsp.conf /etc/modprobe.d/40-eks-nvidia-openrm.conf
