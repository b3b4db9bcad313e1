# Sends signals. Arguments: the id of a process, its number or 0, the numbers of the signals in one word, and to whom:
# `leader`, `group`, or `all` that has its id, whether or not it left the group.
id=$1 pid=$2 signals=$3 to=$4

if lives; then
    for signal in $signals; do
        case $to in
            leader) kill -"$signal" "$pid" ;;
            *) kill -"$signal" -"$pid" || kill -"$signal" "$pid" ;;
        esac
    done 2>/dev/null
    [ "$to" = all ] || exit 0
fi
# Without a leader the others are known by the id alone.
[ "$to" != leader ] || exit 0
# What starts others meanwhile is found the next time.
for _ in 1 2 3 4 5; do
    found=$(grep -l "HANGAR_PROCESS_ID=$id" /proc/[0-9]*/environ 2>/dev/null)
    [ -n "$found" ] || break
    for member in $found; do
        member=${member#/proc/}
        for signal in $signals; do
            kill -"$signal" "${member%/environ}"
        done
    done 2>/dev/null
    [ "$signals" = 9 ] || break
done
exit 0
