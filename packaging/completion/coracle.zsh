#compdef coracle

local -a commands flags
local command=${words[2]}
commands=(${(f)"$(coracle --help | sed -n 's/^  \([a-z]*\)  *\([a-z].*\)/\1:\2/p')"})
if [[ ${words[CURRENT-1]} == -o ]]; then
    compadd json text wide
elif [[ ${words[CURRENT-1]} == --sort-by ]]; then
    compadd cpu memory
elif [[ ${words[CURRENT]} == -* ]]; then
    flags=(${(f)"$(coracle $command --help | grep -oE -- '--[a-z-]+' | sort -u)"})
    compadd -- -o $flags
elif (( CURRENT == 2 )); then
    _describe command commands
elif [[ $command == check ]]; then
    _files
fi
