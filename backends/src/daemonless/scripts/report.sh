# Says how a process is, and what it printed. Arguments: its id, its number or 0, the byte to go on at, how many at the most,
# and the number of the frame that they will be, or 0: whoever asks next is told of the last piece that was given out. With a
# sixth argument it says also how many are left of it. The output comes last, after `data OFFSET` and a newline.
umask 077
id=$1 pid=$2 from=$3 most=$4 seq=$5
base=${HOME:-/}/.hangar/bg/$id

noted=0 supervisor=0
[ -s "$base.pid" ] && read -r noted supervisor _ <"$base.pid"
# What is noted there anybody may have written.
[ "$pid" != 0 ] || pid=$noted
[ "$pid" -gt 0 ] 2>/dev/null || pid=0
running=1
if ! lives && { [ -s "$base.exit" ] || ! has HANGAR_SUPERVISES "$supervisor"; }; then
    # Its files may have been removed.
    grep -lq "HANGAR_SUPERVISES=$id" /proc/[0-9]*/environ 2>/dev/null && [ ! -s "$base.exit" ] || running=
fi
ended=open
if [ -n "$running" ]; then
    echo 'state running'
elif [ -s "$base.exit" ]; then
    read -r code _ <"$base.exit"
    echo "state exited $code"
    # One that is empty could not be written.
    [ ! -s "$base.end" ] || ended=ended
else
    echo 'state lost'
    ended=ended
fi
echo "pid $pid"
[ $# -lt 6 ] || echo "members $(grep -l "HANGAR_PROCESS_ID=$id" /proc/[0-9]*/environ 2>/dev/null | wc -l)"
[ -s "$base.at" ] && { read -r one two three _ <"$base.at"; echo "last $one $two $three"; }

name() { if [ "$1" = 0 ]; then echo "$base.out"; else echo "$base.out.$1"; fi; }
size() { wc -c 2>/dev/null <"$(name "$1")" || echo 0; }
for _ in 1 2 3 4 5; do
    # The file that holds the byte, or the first one after it.
    first='' newest=0 before='' after=''
    for file in "$base.out" "$base.out".*; do
        # One without a byte is one that is just begun, or that could not be written.
        [ -f "$file" ] && [ -s "$file" ] || continue
        at=${file##*.out} at=${at#.} at=${at:-0}
        [ -n "$first" ] && [ "$first" -le "$at" ] || first=$at
        [ "$newest" -ge "$at" ] || newest=$at
        if [ "$at" -gt "$from" ]; then
            [ -n "$after" ] && [ "$after" -le "$at" ] || after=$at
        elif [ -z "$before" ] || [ "$before" -lt "$at" ]; then
            before=$at
        fi
    done
    [ -n "$first" ] || break
    [ -n "$before" ] && [ "$from" -lt $((before + $(size "$before"))) ] || before=$after
    [ -n "$before" ] || break
    # From here on it may be removed.
    command exec 4<"$(name "$before")" && break
done 2>/dev/null
end=0
[ -z "$first" ] || end=$((newest + $(size "$newest")))
# What did not fit at the end is missing.
[ "$ended" = open ] || { [ -s "$base.end" ] && read -r noted _ <"$base.end" && [ "$noted" -gt "$end" ] && end=$noted; } 2>/dev/null
echo "output $ended ${first:-$end} $end"
[ -n "$before" ] || exit 0
[ "$from" -ge "$before" ] || from=$before
len=$(wc -c 2>/dev/null <"/proc/self/fd/4" || size "$before")
len=$((before + len - from))
[ "$len" -gt 0 ] || exit 0
[ "$len" -le "$most" ] || len=$most
if [ "$seq" != 0 ]; then
    # Before it is given out. Where that cannot be noted, what is noted is wrong.
    { echo "$seq $from $len" >"$base.at.new" && mv "$base.at.new" "$base.at"; } 2>/dev/null || rm -f "$base.at"
fi
echo "data $from"
tail -c +$((from - before + 1)) <&4 | head -c "$len"
