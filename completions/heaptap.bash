# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# heaptap.bash: completion of heaptap's commands, options and values for bash. It needs
# nothing but bash. tools/check-consistency compares it with --help.

_heaptap_recording='-i --interval -d --duration -o --output -f --format --limit
    --debuginfod --min-size --ring-size --block --max-stack --loader --transport -q --quiet
    -v --verbose --progress --color'

_heaptap_options() {
    case $1 in
    attach) echo "-n --name $_heaptap_recording -h --help" ;;
    run) echo "$_heaptap_recording -h --help" ;;
    cure) echo "-h --help" ;;
    doctor) echo "-v --verbose -h --help" ;;
    *) echo "-h --help --version" ;;
    esac
}

# The values of an option, as arguments of compgen; fails for one that takes none, or none
# in a word of its own (--block).
_heaptap_values() {
    case $1 in
    -f | --format) echo "-W text|pprof|folded|folded-peak" ;;
    --loader) echo "-W auto|dlopen|map" ;;
    --transport) echo "-W ring|socket" ;;
    --progress) echo "-W auto|never" ;;
    --color) echo "-W auto|always|never" ;;
    --limit) echo "-W all" ;;
    -o | --output) echo "-f" ;;
    -n | --name) echo "-W $(cat /proc/[0-9]*/comm 2>/dev/null | sort -u | tr '\n' '|')" ;;
    -i | --interval | -d | --duration | --min-size | --ring-size | --max-stack) echo "-W " ;;
    *) return 1 ;;
    esac
}

_heaptap_pids() {
    local dir

    for dir in /proc/[0-9]*; do
        [ -e "$dir/exe" ] || continue
        if [ "$EUID" -eq 0 ] || [ -O "$dir" ]; then
            echo "${dir#/proc/}"
        fi
    done
}

# compgen with lists that are separated by "|"; files may be called anything.
_heaptap_reply() {
    local IFS=$'\n'

    [ "$1" = -W ] && IFS='|'$'\n'
    # shellcheck disable=SC2207
    COMPREPLY=($(compgen "$@"))
}

# Index of the word that ends the options of the command: CMD of "heaptap run".
_heaptap_operand() {
    local i

    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --) echo $((i + 1)) && return ;;
        =) ((i++)) ;;
        -*) [ "${COMP_WORDS[i + 1]}" != "=" ] &&
            _heaptap_values "${COMP_WORDS[i]}" >/dev/null && ((i++)) ;;
        *) echo "$i" && return ;;
        esac
    done
}

_heaptap() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]} values operand attached=

    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        _heaptap_reply -W "attach|run|cure|doctor|help|${_heaptap_top// /|}" -- "$cur"
        return
    fi
    if [ "$command" = help ]; then
        [ "$COMP_CWORD" -eq 2 ] && _heaptap_reply -W 'attach|run|cure|doctor' -- "$cur"
        return
    fi
    if [ "$command" = run ]; then
        operand=$(_heaptap_operand)
        if [ -n "$operand" ] && [ "$operand" -le "$COMP_CWORD" ]; then
            if declare -F _command_offset >/dev/null; then
                _command_offset "$operand"
            elif [ "$operand" -eq "$COMP_CWORD" ]; then
                _heaptap_reply -c -- "$cur"
            else
                _heaptap_reply -f -- "$cur"
            fi
            return
        fi
    fi
    # "--color=al" comes as three words.
    [ "$cur" = "=" ] && cur='' attached=1
    [ "$prev" = "=" ] && prev=${COMP_WORDS[COMP_CWORD - 2]} attached=1
    if values=$(_heaptap_values "$prev"); then
        if [ "$values" = -f ]; then
            compopt -o filenames 2>/dev/null
            _heaptap_reply -f -- "$cur"
        else
            _heaptap_reply -W "${values#-W }" -- "$cur"
        fi
        return
    fi
    [ "$attached" ] && return
    case $command:$cur in
    *:-*) _heaptap_reply -W "$(_heaptap_options "$command" | tr -s ' \n' '||')" -- "$cur" ;;
    attach:* | cure:* | doctor:*) _heaptap_reply -W "$(_heaptap_pids)" -- "$cur" ;;
    run:*) _heaptap_reply -c -- "$cur" ;;
    esac
}

_heaptap_top=$(_heaptap_options '')
complete -F _heaptap heaptap
