# shellcheck shell=bash disable=SC2153,SC2154
# Installs what AWS' image for NVIDIA GPUs does not have. The image has the driver, a toolkit and persistence mode, and this is the
# repository that they come from (awslabs/amazon-eks-ami 81fec2e8, templates/al2023/provisioners/install-nvidia-driver.sh).
dnf config-manager --add-repo https://developer.download.nvidia.com/compute/cuda/repos/amzn2023/x86_64/cuda-amzn2023.repo
packages=(nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1)
dnf install -y "${packages[@]/%/-$TOOLKIT}"
dnf versionlock "${packages[@]}"

# The packages for the driver's CUDA version (NVIDIA, install DCGM). The service stays off, because the nodes run another engine.
# set-nvidia-clocks waits for the kernel module.
systemctl start set-nvidia-clocks
cuda=$(nvidia-smi | sed -E -n 's/.*CUDA( UMD)? Version: ([0-9]+)[.].*/\2/p')
dnf install -y --setopt=install_weak_deps=True "datacenter-gpu-manager-4-cuda$cuda"
systemctl disable nvidia-dcgm

# nvtop is in Amazon's repository SPAL (amazonlinux/amazon-linux-2023#679).
dnf install -y spal-release
dnf install -y nvtop

systemctl enable nvidia-persistenced
dnf clean all
