#compdef coracle-master

local -a commands flags
commands=(
    'status:say how the running master is'
    'store:look at the store, or mend it'
    'backup:write everything durable to a file'
    'restore:fill an empty data directory from a backup'
)
flags=(${(f)"$(coracle-master --help | grep -oE -- '--[a-z-]+' | sort -u)"})
if [[ ${words[CURRENT-1]} == -o ]]; then
    compadd json text
elif [[ ${words[CURRENT-1]} == store ]]; then
    compadd verify fsck flush salvage
elif [[ ${words[CURRENT]} == -* ]]; then
    compadd -- -o $flags
elif (( CURRENT == 2 )); then
    _describe command commands
else
    _files
fi
