#compdef coracle-master

local -a commands flags
commands=(
    'status:say how the running master is'
    'apply:show what is applied from the directory, and let removals go on'
    'store:look at the store, or mend it'
    'backup:write everything durable to a file'
    'restore:fill an empty data directory from a backup'
    'rbac:show and take the bindings from before access rules counted'
    'kubeconfig:print a kubeconfig with a new certificate'
    'token:make, list and end tokens'
    'user:list users with certificates, and end those of one'
    'kubectl:run kubectl as the administrator'
)
flags=(${(f)"$(coracle-master --help | grep -oE -- '--[a-z-]+' | sort -u)"})
if [[ ${words[CURRENT-1]} == -o ]]; then
    compadd json text wide
elif [[ ${words[CURRENT-1]} == store ]]; then
    compadd verify fsck flush salvage
elif [[ ${words[CURRENT-1]} == rbac ]]; then
    compadd adopt
elif [[ ${words[CURRENT-1]} == apply ]]; then
    compadd -- --confirm --again --mark
elif [[ ${words[CURRENT-1]} == adopt ]]; then
    compadd -- --yes
elif [[ ${words[CURRENT-1]} == token ]]; then
    compadd create list revoke
elif [[ ${words[CURRENT-1]} == user ]]; then
    compadd list revoke
elif [[ ${words[CURRENT]} == -* ]]; then
    compadd -- -o $flags
elif (( CURRENT == 2 )); then
    _describe command commands
else
    _files
fi
