# Starts a process that outlives this. Arguments: its id, bytes of its output to keep, then the program and its
# arguments. Says `started PID`, or `failed CODE MESSAGE` where the program cannot be run.
#
# Two shells stay with a process, in a session of their own: one waits for it and notes how it ended, one keeps what it
# prints. They are known by HANGAR_SUPERVISES; the process, and what it starts, by HANGAR_PROCESS_ID.
umask 077
id=$1 keep=$2
shift 2
folder=${HOME:-/}/.hangar/bg
base=$folder/$id

# `env` comes before a program that has variables of its own.
program=$1
if [ "$program" = env ]; then
    for word do
        case $word in env | *=*) ;; *) program=$word; break ;; esac
    done
fi
case $program in
    */*)
        [ -e "$program" ] || { echo "failed 127 $program: No such file or directory"; exit; }
        [ -f "$program" ] && [ -x "$program" ] || { echo "failed 126 $program: Permission denied"; exit; }
        ;;
    *) command -v "$program" >/dev/null || { echo "failed 127 $program: command not found"; exit; } ;;
esac

mkdir -p "$folder" || exit
# What ended an hour ago, and nobody came for.
find "$folder" -name '*.exit' -mmin +60 2>/dev/null | while read -r old; do
    rm -f "${old%.exit}".*
done
{ mkfifo "$base.fifo" && : >"$base.out"; } || exit

supervise='
    id=$1 base=$2 keep=$3
    shift 3
    {
        # The process has them at their defaults: these are handlers.
        trap : HUP INT QUIT TERM USR1 USR2
        # What this shell itself says of the end is no output.
        exec 3>&1 >/dev/null 2>&1
        unset HANGAR_SUPERVISES
        HANGAR_PROCESS_ID=$id sh -c '\''
            base=$1
            shift
            echo "$$ $PPID" >"$base.pid"
            echo "$$" >"$base.fifo"
            exec setsid "$@"
        '\'' sh "$base" "$@" </dev/null >&3 2>&3 3>&-
        code=$?
        exec 3>&-
        # A disk may be full for a while.
        until echo "$code" >"$base.exit.new" && mv "$base.exit.new" "$base.exit"; do
            [ -d "${base%/*}" ] || exit
            sleep 1
        done
    } | {
        trap : HUP INT QUIT TERM USR1 USR2
        at=0 held=0
        set --
        while :; do
            file=$base.out
            [ "$at" = 0 ] || file=$base.out.$at
            # Each read is written at once, a file has 512 of them.
            dd bs=8192 count=512 of="$file"
            failed=$?
            size=$(wc -c <"$file")
            size=$((size + 0))
            if [ "$failed" != 0 ]; then
                # The disk is full, or the folder is gone. What comes meanwhile is missing, and whatever comes next is
                # farther on.
                lost=$(head -c 8192 | wc -c)
                [ $((lost + 0)) != 0 ] || break
                size=$((size + 8192 + lost))
            elif [ "$size" = 0 ]; then
                [ "$at" = 0 ] || rm -f "$file"
                break
            fi
            at=$((at + size)) held=$((held + size))
            set -- "$@" "$file" "$size"
            while [ $((held - $2)) -ge "$keep" ]; do
                rm -f "$1"
                held=$((held - $2))
                shift 2
            done
        done
        until : >"$base.end"; do
            [ -d "${base%/*}" ] || exit
            sleep 1
        done
    }
'
# A setsid that leads a session has to fork, and is not waited for. In the background (`&`) INT and QUIT would be ignored, in
# the process, too.
HANGAR_PROCESS_ID='' HANGAR_SUPERVISES=$id setsid sh -c 'exec setsid sh -c "$@"' sh "$supervise" hangar "$id" "$base" \
    "$keep" "$@" </dev/null >/dev/null 2>&1
read -r pid <"$base.fifo"
rm -f "$base.fifo"
echo "started $pid"
