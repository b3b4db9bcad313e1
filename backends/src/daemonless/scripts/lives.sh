# What the scripts have in common that come after it: of the process `id` with the number `pid`.

# Whether a number is still the process: it has the id in its environment, or who looks after it is its parent.
has() { grep -q "$1=$id" "/proc/$2/environ" 2>/dev/null; }
lives() {
    [ "$pid" -gt 1 ] 2>/dev/null || return 1
    # Without /proc a number is all there is to know.
    [ -e /proc/self/environ ] || { kill -0 "$pid" 2>/dev/null; return; }
    has HANGAR_PROCESS_ID "$pid" && return
    stat=$(cat "/proc/$pid/stat" 2>/dev/null) || return 1
    stat=${stat##*) }
    case $stat in Z*) return 1 ;; esac
    stat=${stat#* }
    has HANGAR_SUPERVISES "${stat%% *}"
}
