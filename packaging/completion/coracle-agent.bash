# bash completion for coracle-agent

_coracle_agent() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command="" value one
    for one in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $one in check | plan | status | doctor | images | update | exec | logs | restart | top | backup | restore) command=$one ;; esac
    done
    case $before in
        -o) mapfile -t COMPREPLY < <(compgen -W "json text wide" -- "$word"); return ;;
        --*)
            value=$(coracle-agent --help | sed -n "s/^  $before \([^ ]*\).*/\1/p" 2>/dev/null)
            case $value in
                DIR*) mapfile -t COMPREPLY < <(compgen -d -- "$word"); return ;;
                FILE | PATH) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
                *\|*) mapfile -t COMPREPLY < <(compgen -W "${value//|/ }" -- "$word"); return ;;
            esac ;;
    esac
    case $word in
        -*) mapfile -t COMPREPLY < <(compgen -W "-o $(coracle-agent --help | grep -oE -- '--[a-z-]+' | sort -u)" -- "$word"); return ;;
    esac
    case $command in
        backup | restore) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
        check) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
        "") mapfile -t COMPREPLY < <(compgen -W "check plan status doctor images update exec logs restart top backup restore" -- "$word") ;;
    esac
}
complete -o filenames -F _coracle_agent coracle-agent
