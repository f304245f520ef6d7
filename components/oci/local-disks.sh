# The node joins without the array too: its boot volume is as large as the plan counts with.
use_local_disks() {
  local array=/dev/md/local root=/mnt/local options folder
  options=nofail,x-systemd.before=crio.service,x-systemd.before=kubelet.service
  set -- /dev/nvme*n1
  mdadm --create "$array" --run --force --level=0 --raid-devices=$# "$@" || return 1
  mkfs.ext4 -q -F -m 1 "$array" || return 1
  echo "UUID=$(blkid -s UUID -o value "$array") $root ext4 noatime,$options 0 0" >>/etc/fstab
  mkdir -p "$root" || return 1
  mount "$root" || return 1
  for folder in /var/lib/containers /var/lib/kubelet /var/log/pods; do
    echo "$root$folder $folder none bind,$options 0 0" >>/etc/fstab
    mkdir -p "$root$folder" "$folder" || return 1
    mount "$folder" || return 1
  done
}
use_local_disks || echo "local disks not used"
