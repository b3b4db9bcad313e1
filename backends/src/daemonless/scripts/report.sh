# Says how a process is, and what it printed. Arguments: its id, its number, the byte to go on at, how many at the most,
# and the number of the frame that they will be, or 0: whoever asks next is told of the last frame that was given out. With a
# sixth argument it says also how many are left of it. The output comes last, after `data OFFSET` and a newline.
id=$1 pid=$2 from=$3 most=$4 seq=$5
base=${HOME:-/}/.hangar/bg/$id

lives() {
    # Without /proc a number is all there is to know.
    [ -e /proc/self/environ ] || { kill -0 "$2" 2>/dev/null; return; }
    grep -q "$1=$id" "/proc/$2/environ" 2>/dev/null
}

[ -s "$base.pid" ] && read -r pid supervisor <"$base.pid"
if [ ! -s "$base.exit" ]; then
    if ! lives HANGAR_SUPERVISES "${supervisor:-0}" && ! lives HANGAR_PROCESS_ID "$pid"; then
        # Its files may have been removed.
        grep -lq "HANGAR_SUPERVISES=$id" /proc/[0-9]*/environ 2>/dev/null || gone=1
    fi
fi
# After that: it may have ended meanwhile.
if [ -s "$base.exit" ]; then
    read -r code <"$base.exit"
    echo "state exited $code"
elif [ -n "$gone" ]; then
    echo 'state lost'
else
    echo 'state running'
fi
echo "pid $pid"
[ $# -lt 6 ] || echo "members $(grep -l "HANGAR_PROCESS_ID=$id" /proc/[0-9]*/environ 2>/dev/null | wc -l)"
if [ -e "$base.end" ] || [ -n "$gone" ]; then ended=ended; else ended=open; fi

# The file that holds the byte, or the first one after it.
first='' last=0 before='' after=''
for file in "$base.out" "$base.out".*; do
    [ -e "$file" ] || continue
    at=${file##*.out} at=${at#.} at=${at:-0}
    [ -n "$first" ] && [ "$first" -le "$at" ] || first=$at
    [ "$last" -ge "$at" ] || last=$at
    if [ "$at" -gt "$from" ]; then
        [ -n "$after" ] && [ "$after" -le "$at" ] || after=$at
    elif [ -z "$before" ] || [ "$before" -lt "$at" ]; then
        before=$at
    fi
done
name() { if [ "$1" = 0 ]; then echo "$base.out"; else echo "$base.out.$1"; fi; }
size() { wc -c 2>/dev/null <"$(name "$1")" || echo 0; }
[ -s "$base.at" ] && { read -r noted <"$base.at"; echo "last $noted"; }
[ -n "$first" ] || { echo "output $ended 0 0"; exit; }
end=$(size "$last")
echo "output $ended $first $((last + end))"
[ -n "$before" ] && [ "$from" -lt $((before + $(size "$before"))) ] || before=$after
[ -n "$before" ] || exit 0
[ "$from" -ge "$before" ] || from=$before
len=$((before + $(size "$before") - from))
[ "$len" -le "$most" ] || len=$most
if [ "$seq" != 0 ] && [ "$len" -gt 0 ]; then
    # Before it is given out. Where that cannot be noted, what is noted is wrong.
    { echo "$seq $from $len" >"$base.at.new" && mv "$base.at.new" "$base.at"; } 2>/dev/null || rm -f "$base.at"
fi
echo "data $from"
tail -c +$((from - before + 1)) "$(name "$before")" | head -c "$len"
