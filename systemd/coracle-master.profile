# kubectl of root finds the cluster of this host, where nothing else is said.
if [ "$(id -u)" = 0 ] && [ -z "${KUBECONFIG:-}" ] && [ ! -e "${HOME:-/root}/.kube/config" ] && [ -r /etc/coracle/admin.kubeconfig ]; then
    export KUBECONFIG=/etc/coracle/admin.kubeconfig
fi
