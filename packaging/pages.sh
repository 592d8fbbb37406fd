# pages.sh, for test-packages.sh: runs the commands of the documentation, as they stand in its text, on a machine where both packages are.

# The image of every name that the pages use, made of busybox: what matters is the command, not the web server.
page_images() {
    inside sh -ec '
        rm -rf /root/image && mkdir -p /root/image/bin /root/image/www /root/image/tmp /root/image/etc
        echo "<h1>Welcome</h1>" >/root/image/www/index.html
        cp /bin/busybox /root/image/bin/ && cd /root/image/bin
        for a in $(./busybox --list); do [ "$a" = busybox ] || ln -sf busybox "$a"; done
        tar -C /root/image -c . | docker import --change "ENV PATH=/bin" --change "CMD [\"httpd\", \"-f\", \"-p\", \"80\", \"-h\", \"/www\"]" - nginx:1.27
        docker tag nginx:1.27 nginx:latest
        docker tag nginx:1.27 shop:1
        tar -C /root/image -c . | docker import --change "ENV PATH=/bin" --change "CMD [\"sh\"]" - busybox:1.36' >/dev/null
}

# commands PAGE [HEADING]: its indented blocks; a block inside a list belongs to the text.
commands() {
    awk -v heading="${2:-}" '
        /^#+ / { sub(/^#+ /, ""); here = heading == "" || $0 == heading }
        /^    [^ ]/ && before == "" || /^    / && block { block = 1; if (here) print substr($0, 5); before = $0; next }
        { block = 0; before = $0 }' "$tree/$1"
}

# follow PAGE [HEADING]: all its commands in one shell, which ends at the first that fails. POD stands for the pod of docs/manifests.md.
follow() {
    local script said
    script=$(commands "$@")
    [ -n "$script" ] || fail "$*: no commands"
    if ! said=$(docker exec -i -w /root -e HOME=/root "$machine" timeout 300 bash -l -euxo pipefail -c "$(printf '%s' "$script" | sed 's/\<POD\>/hello/')" </dev/null 2>&1); then
        printf '%s\n' "$said" | tail -n 40 >&2
        fail "the commands of $* do not work"
    fi
    say "ok: the commands of $*"
}

# Every page whose commands a reader types; the sections of make and apt are what the rest of this test is made of.
follow_pages() {
    page_images
    follow docs/first-steps.md
    follow docs/manifests.md
    await 60 "the pod of docs/manifests.md runs" inside coracle-agent exec hello -- true
    follow docs/operations.md
    inside sh -c 'cp /etc/coracle/manifests/hello.yaml /root/web.yaml'
    follow docs/commands.md
    follow docs/apply-directory.md
    follow docs/services-and-names.md
    follow docs/old-versions.md
    follow docs/data-directory.md
    follow docs/backup-and-recovery.md
    follow README.md "A first pod"
    await 60 "the pods of README.md run" inside coracle-master kubectl wait --for=condition=Ready pod --all --timeout=1s
    inside coracle-master kubectl delete pod web >/dev/null
    inside sh -c 'rm -rf /etc/coracle/manifests/hello.yaml /var/lib/coracle/master.old /mnt/backup /var/lib/coracle/images/* /var/lib/coracle/volumes'
    await 60 "nothing of the pages runs any more" inside sh -c '! docker ps -q --filter label=io.kubernetes.pod.name | grep .'
}
