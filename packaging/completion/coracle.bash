# bash completion for coracle

_coracle() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command="" commands one
    commands=$(coracle --help | sed -n 's/^       coracle \([a-z]*\) .*/\1/p')
    for one in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case " ${commands//$'\n'/ } " in *" $one "*) [ -n "$command" ] || command=$one ;; esac
    done
    case $before in
        -o) mapfile -t COMPREPLY < <(compgen -W "json text wide" -- "$word"); return ;;
        --sort-by) mapfile -t COMPREPLY < <(compgen -W "cpu memory" -- "$word"); return ;;
        --stream) mapfile -t COMPREPLY < <(compgen -W "stdout stderr" -- "$word"); return ;;
        --config) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
        --*-dir) mapfile -t COMPREPLY < <(compgen -d -- "$word"); return ;;
    esac
    case $word in
        -*)
            mapfile -t COMPREPLY < <(compgen -W "$(coracle $command --help | grep -oE -- '--[a-z-]+' | sort -u)" -- "$word")
            return ;;
    esac
    case $command in
        check) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
        "") mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word") ;;
    esac
}
complete -o filenames -F _coracle coracle
