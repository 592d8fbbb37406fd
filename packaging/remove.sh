# remove_tree PATH...: takes folders away with all that is in them, and nothing that is mounted there: a disk, a share or a folder
# that somebody bound into one of them stays, and so does that folder, with a word about it. Read by `make stop` and by the purge of the
# packages: they remove folders in no other way.

remove_tree() {
    local path mounted
    for path in "$@"; do
        # The fifth field of a line is where something is mounted; the kernel writes a blank in it as \040.
        mounted=$(P="$path" awk 'BEGIN { path = ENVIRON["P"]; gsub(/ /, "\\040", path) }
            $5 == path || index($5, path "/") == 1 { print $5; exit }' /proc/self/mountinfo 2>/dev/null || true)
        if [ -n "$mounted" ]; then
            echo "$path stays: $mounted is mounted. Unmount it (umount $mounted), and remove the rest yourself." >&2
        else
            rm -rf --one-file-system -- "$path"
        fi
    done
}
