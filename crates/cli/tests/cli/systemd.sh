#!/usr/bin/env bash
# Boots systemd as the first process of an empty root folder, runs the shell script that comes by standard
# input beside it, and ends everything. In the script, `sudo COMMAND` runs one in that machine.
#
#   systemd.sh ROOT < SCRIPT
#
# The root holds this machine's systemd and what a service needs around it, and none of its units.
set -euo pipefail
root=$(realpath "$1")

if [ "${2:-}" != inside ]; then
    exec unshare --mount --propagation private bash "$0" "$root" inside
fi

# Programs, with the libraries that they are linked with.
copy() {
    local file
    for file in "$@"; do
        [ -e "$file" ] || continue
        for file in "$file" $(ldd "$file" | grep -o '/[^ ]*'); do
            mkdir -p "$root/$(dirname "$file")"
            cp --no-clobber --dereference "$file" "$root/$file"
        done
    done
}
for folder in bin sbin lib lib64; do
    mkdir -p "$root/usr/$folder"
    [ -e "$root/$folder" ] || ln -s "usr/$folder" "$root/$folder"
done
copy /usr/lib/systemd/systemd /usr/lib/systemd/systemd-executor /usr/bin/systemctl /usr/bin/env
mkdir -p "$root"/{proc,run,tmp,dev,sys,etc/systemd/system,usr/lib/systemd/system}
for unit in sysinit basic multi-user shutdown network-online; do
    cp "/usr/lib/systemd/system/$unit.target" "$root/usr/lib/systemd/system/"
done

mount -t tmpfs run "$root/run"
mount -t tmpfs dev "$root/dev"
for device in null zero urandom; do
    : > "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done

# A control group of its own, which systemd takes for the whole tree.
mount -t sysfs -o ro sys "$root/sys"
groups=$root/sys/fs/cgroup
if [ "$(stat --file-system --format %T /sys/fs/cgroup)" = cgroup2fs ]; then
    mount_groups() { mount -t cgroup2 cgroup "$1"; }
else
    mount -t tmpfs groups "$groups"
    groups=$groups/systemd
    mkdir "$groups"
    mount_groups() { mount -t cgroup -o none,name=systemd cgroup "$1"; }
fi
mkdir "$root/run/groups"
mount_groups "$root/run/groups"
own=$root/run/groups/catena-trial-$$
mkdir "$own"

# The subshell joins the group; its children see it as the root of all.
( echo $BASHPID > "$own/cgroup.procs"
  export -f mount_groups
  export groups root
  # What systemd would set of the kernel is this machine's too: it may only read it.
  exec setpriv --pdeathsig KILL \
      unshare --cgroup --pid --ipc --uts --net --fork --kill-child bash -c '
      mount_groups "$groups" && mount -t proc proc "$root/proc" &&
          mount --bind "$root/proc/sys" "$root/proc/sys" &&
          mount -o remount,bind,ro "$root/proc/sys" &&
          exec env --ignore-environment container=other PATH=/usr/sbin:/usr/bin \
              chroot "$root" /usr/lib/systemd/systemd --system --unit=multi-user.target' \
      > "$root/tmp/systemd.log" 2>&1 < /dev/null ) &
machine=$!

end() {
    set +e
    kill -KILL "$machine" 2> /dev/null
    wait "$machine" 2> /dev/null
    # What was ended leaves its groups a moment later.
    local deadline=$((SECONDS + 10))
    while [ -d "$own" ] && [ $SECONDS -lt $deadline ]; do
        find "$own" -depth -type d -exec rmdir {} + 2> /dev/null
        sleep 0.02
    done
}
trap end EXIT

sudo() {
    nsenter --pid="/proc/$machine/ns/pid_for_children" chroot "$root" \
        /usr/bin/env --ignore-environment PATH=/usr/sbin:/usr/bin "$@"
}
# Waits until a command succeeds, at most a minute.
await() {
    local deadline=$((SECONDS + 60))
    until "$@" > /dev/null 2>&1; do
        if [ $SECONDS -ge $deadline ] || ! kill -0 "$machine" 2> /dev/null; then
            echo "in a minute did not succeed: $*" >&2
            cat "$root/tmp/systemd.log" >&2
            return 1
        fi
        sleep 0.1
    done
}
# By what it prints: where there is no systemd yet, systemctl takes this for an image and is content.
is_up() { [ "$(sudo systemctl is-active multi-user.target)" = active ]; }
await is_up
# Functions and variables are those of this shell; what a line of the script prints is its own.
script=$(cat)
eval "$script"
