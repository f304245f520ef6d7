root=$1 host=$2 place=$3; shift 3
hostname "$host" || true
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$(dirname "$root$2")"; : > "$root$2"; fi
  mount --rbind "$1" "$root$2"; shift 2
done
shift
exec unshare --root="$root" --wd="$place" "$@"
