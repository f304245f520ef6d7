#!/usr/bin/env bash
set -o errexit -o nounset -o pipefail
# Pods reach no service of the node's own link: instance metadata with the node's certificate, disks by iSCSI. Names (port 53)
# stay. The node, kubelet, its agents and pods with the node's network are not forwarded, so the rules do not see them. The table
# is `mangle`: an ACCEPT in `filter` (kube-proxy, flannel, Calico) ends that table alone, and a Service's address is translated
# before. DROP, because REJECT is for `filter`. The unit runs at each boot; without it neither this script nor kubelet goes on.
cat >/etc/systemd/system/gpu-ci-metadata.service <<'UNIT'
[Unit]
Description=Close the link-local services of the node to its pods
Before=crio.service kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -ec 'iptables --wait -t mangle -I FORWARD 1 -d 169.254.0.0/16 -p tcp ! --dport 53 -j DROP; \
  test ! -e /proc/net/if_inet6 || ip6tables --wait -t mangle -I FORWARD 1 -d fd00:c1::a9fe:0/112 -p tcp ! --dport 53 -j DROP'

[Install]
WantedBy=multi-user.target
RequiredBy=kubelet.service
UNIT
systemctl enable --now gpu-ci-metadata.service
# Without it Oracle Linux keeps the image's 47 GB, whatever the boot volume's size. A disk that is grown already makes it fail,
# and the node must join all the same. Ubuntu's cloud-init grows the disk by itself.
if [ -x /usr/libexec/oci-growfs ]; then
  bash /usr/libexec/oci-growfs -y || echo "root filesystem not grown"
fi
@DISKS@
if command -v oke >/dev/null; then
  # An image with OKE's node package. The instance's certificate may not be there yet: a node that never joins is paid for.
  for attempt in 1 2 3 4 5 6; do
    if oke bootstrap@ARGUMENTS@; then exit 0; fi
    echo "oke bootstrap failed, attempt $attempt"
    sleep 20
  done
  exit 1
fi
metadata=http://169.254.169.254/opc/v2/instance/metadata
curl --fail --retry 10 --retry-delay 3 --header "Authorization: Bearer Oracle" --location "$metadata/oke_init_script" |
  base64 --decode >/var/run/oke-init.sh
bash /var/run/oke-init.sh@ARGUMENTS@
