# shellcheck shell=bash disable=SC2153,SC2154
# Pulls the images into the namespace of kubelet, and keeps its garbage collection away from them, as AWS' image does with its pause
# image (awslabs/amazon-eks-ami 81fec2e8, templates/al2023/runtime/bin/cache-pause-container).
systemctl start containerd
for image in $IMAGES; do
  credentials=()
  if [[ $image =~ ^[0-9]+\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com/ ]]; then
    credentials=(--user "AWS:$(aws ecr get-login-password --region "${BASH_REMATCH[1]}")")
  fi
  ctr --namespace k8s.io image pull "${credentials[@]}" "$image" > /dev/null
  ctr --namespace k8s.io image label "$image" io.cri-containerd.pinned=pinned
done
systemctl stop containerd
