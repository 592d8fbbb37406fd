#compdef coracle-agent

local -a commands flags
commands=(
    'check:say what is wrong with manifest files'
    'plan:say what an agent that starts now would do, and why'
    'status:say how this node and its pods are'
    'doctor:name the problems of this host'
    'images:say which image each container runs, and whether there is a newer one'
    'update:replace the pods that have a newer image'
    'exec:run a command in a pod of this host'
    'logs:say what a container of this host wrote'
    'backup:save objects, files and data of this host'
    'restore:bring all of it back on a bare host'
    'restart:start a pod, or the pods of a workload, anew'
    'top:say what this host and its pods use'
)
flags=(${(f)"$(coracle-agent --help | grep -oE -- '--[a-z-]+' | sort -u)"})
if [[ ${words[CURRENT-1]} == -o ]]; then
    compadd json text wide
elif [[ ${words[CURRENT]} == -* ]]; then
    compadd -- -o $flags
elif (( ${words[(I)check]} )); then
    _files
elif (( CURRENT == 2 )); then
    _describe command commands
else
    _files
fi
