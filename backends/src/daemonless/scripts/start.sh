# Starts a process that outlives this. Arguments: its id, bytes of its output to keep, the program (none for a shell, which is
# `SHELL` with the id behind it in what follows) and the PATH in which that is looked for (none for the own one), then all
# that is to be run. Says `started PID`, or `failed CODE MESSAGE` where the program cannot be run.
#
# Three shells stay with a process, in a session of their own: one that waits for it and notes how it ended, one that keeps
# what it prints, and the one that both come from. They are known by HANGAR_SUPERVISES; the process, and what it starts, by
# HANGAR_PROCESS_ID.
mask=$(umask)
umask 077
id=$1 keep=$2 program=$3 path=${4:-$PATH}
shift 4
folder=${HOME:-/}/.hangar/bg
base=$folder/$id

case $program in
    '') ;;
    */*)
        [ -e "$program" ] || { echo "failed 127 $program: No such file or directory"; exit; }
        [ -f "$program" ] && [ -x "$program" ] || { echo "failed 126 $program: Permission denied"; exit; }
        ;;
    # No word of the shell's own.
    *) case $(PATH=$path; command -v -- "$program") in
        */*) ;;
        *) echo "failed 127 $program: command not found"; exit ;;
    esac ;;
esac
for tool in mkdir find rm mv sleep env setsid dd head tail wc grep; do
    command -v "$tool" >/dev/null || { echo "$tool: not found" >&2; exit 1; }
done
shell=sh
command -v bash >/dev/null && shell=bash
count=$#
while [ "$count" -gt 0 ]; do
    if [ "$1" = "SHELL$id" ]; then set -- "$@" "$shell"; else set -- "$@" "$1"; fi
    shift
    count=$((count - 1))
done
mkdir -p "$folder" || exit
# What ended a day ago, and nobody came for.
find "$folder" -name '*.exit' -mmin +1440 2>/dev/null | while read -r old; do
    rm -f "${old%.exit}".*
done
# The second is for a time when there is no room for another file.
: >"$base.out" && : >"$base.spare" || exit

supervise='
    id=$1 base=$2 keep=$3 mask=$4
    shift 4
    {
        # The process has them at their defaults: these are handlers.
        trap : HUP INT QUIT TERM USR1 USR2
        # What this shell itself says of the end is no output.
        exec 3>&1 >/dev/null 2>&1
        unset HANGAR_SUPERVISES
        # It is the inner one that has the outputs: of the end of what has them a shell says something there.
        HANGAR_PROCESS_ID=$id sh -c '\''
            exec >&3 2>&3 3>&-
            base=$1 mask=$2
            shift 2
            # Whoever asked for it has given up.
            [ -e "$base.out" ] || exit 1
            echo "$$ $PPID" >"$base.pid"
            umask "$mask"
            exec setsid env -- "$@"
        '\'' sh "$base" "$mask" "$@" </dev/null
        code=$?
        exec 3>&-
        # A disk may be full for a while.
        until echo "$code" >"$base.exit.new" && mv "$base.exit.new" "$base.exit"; do
            [ -d "${base%/*}" ] && sleep 1 || exit
        done
    } | {
        trap : HUP INT QUIT TERM USR1 USR2
        exec 2>/dev/null
        at=0 held=0
        file=$base.out
        set --
        while :; do
            # Each read is written at once; 4 MiB at the most, and less where they are short.
            said=$(LC_ALL=C dd bs=32768 count=128 2>&1 >>"$file")
            failed=$?
            len=$(wc -c <"$file")
            len=$((len + 0))
            if [ "$failed" != 0 ]; then
                # The disk is full, or the folder is gone. What does not fit is missing, nobody knows how much: whatever
                # comes next is farther on, in another file.
                missing=32768
                case $said in
                    *[0-9]+[0-9]*" records in"*) ;;
                    # There is no file: nothing has been read.
                    *)
                        missing=$(dd bs=32768 count=1 | wc -c)
                        [ $((missing + 0)) != 0 ] || break
                        ;;
                esac
                next=$((at + len + missing))
            elif echo "$said" | grep -qx "0+0 records in"; then
                break
            else
                [ "$len" -ge 4194304 ] || continue
                next=$((at + len))
            fi
            if [ "$len" = 0 ]; then
                mv "$file" "$base.out.$next"
            else
                held=$((held + len))
                set -- "$@" "$file" "$len"
                mv "$base.spare" "$base.out.$next"
                # Where that fails a shell would end with `:`.
                true >"$base.spare"
            fi
            at=$next file=$base.out.$next
            while [ $((held - ${2:-0})) -ge "$keep" ]; do
                rm -f "$1"
                held=$((held - $2))
                shift 2
            done
        done
        rm -f "$base.spare"
        [ "$at" = 0 ] || [ -s "$file" ] || rm -f "$file"
        until echo $((at + len)) >"$base.end"; do
            [ -d "${base%/*}" ] && sleep 1 || exit
        done
    }
'
# A setsid that leads a session has to fork, and is not waited for. In the background (`&`) INT and QUIT would be ignored, in
# the process, too.
HANGAR_PROCESS_ID='' HANGAR_SUPERVISES=$id setsid sh -c 'exec setsid sh -c "$@"' sh "$supervise" hangar "$id" "$base" \
    "$keep" "$mask" "$@" </dev/null >/dev/null 2>&1 || { rm -f "$base".*; exit 1; }
tries=0
while [ ! -s "$base.pid" ]; do
    if [ -s "$base.exit" ] || [ "$tries" -ge 500 ]; then
        cat "$base.out" >&2
        rm -f "$base".*
        exit 1
    fi
    tries=$((tries + 1))
    sleep 0.01 2>/dev/null || sleep 1
done
read -r pid _ <"$base.pid"
echo "started $pid"
