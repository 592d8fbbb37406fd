# bash completion for coracle-master

_coracle_master() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command="" value one
    for one in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $one in status | apply | store | backup | restore | rbac | kubeconfig | token | user | kubectl) command=$one ;; esac
    done
    case $before in
        -o) mapfile -t COMPREPLY < <(compgen -W "json text wide" -- "$word"); return ;;
        backup | restore) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
        --*)
            value=$(coracle-master --help | sed -n "s/^  $before \([^ ]*\).*/\1/p" 2>/dev/null)
            case $value in
                DIR*) mapfile -t COMPREPLY < <(compgen -d -- "$word"); return ;;
                FILE | PATH) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
                *\|*) mapfile -t COMPREPLY < <(compgen -W "${value//|/ }" -- "$word"); return ;;
            esac ;;
        token) mapfile -t COMPREPLY < <(compgen -W "create list revoke" -- "$word"); return ;;
        user) mapfile -t COMPREPLY < <(compgen -W "list revoke" -- "$word"); return ;;
        apply) mapfile -t COMPREPLY < <(compgen -W "--confirm --again --mark" -- "$word"); return ;;
        rbac) mapfile -t COMPREPLY < <(compgen -W "adopt" -- "$word"); return ;;
        adopt) mapfile -t COMPREPLY < <(compgen -W "--yes" -- "$word"); return ;;
        store) mapfile -t COMPREPLY < <(compgen -W "verify fsck flush salvage" -- "$word"); return ;;
    esac
    case $word in
        -*) mapfile -t COMPREPLY < <(compgen -W "-o $(coracle-master --help | grep -oE -- '--[a-z-]+' | sort -u)" -- "$word"); return ;;
    esac
    [ -n "$command" ] || mapfile -t COMPREPLY < <(compgen -W "status apply store backup restore rbac kubeconfig token user kubectl" -- "$word")
}
complete -o filenames -F _coracle_master coracle-master
