#compdef coracle-agent

local -a commands flags
commands=(
    'check:say what is wrong with manifest files'
    'plan:say what an agent that starts now would do, and why'
    'status:say how this node and its pods are'
    'doctor:name the problems of this host'
    'exec:run a command in a pod of this host'
    'logs:say what a container of this host wrote'
)
flags=(${(f)"$(coracle-agent --help | grep -oE -- '--[a-z-]+' | sort -u)"})
if [[ ${words[CURRENT-1]} == -o ]]; then
    compadd json text
elif [[ ${words[CURRENT]} == -* ]]; then
    compadd -- -o $flags
elif (( ${words[(I)check]} )); then
    _files
elif (( CURRENT == 2 )); then
    _describe command commands
else
    _files
fi
