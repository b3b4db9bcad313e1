#!/usr/bin/env bash
# Holds the instructions that a message costs in core to a limit. They are counted, not timed: the same binary gives the
# same count, whatever else the machine does. Needs valgrind.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --locked --release --quiet -p hangar-benches --bin instructions
binary="${CARGO_TARGET_DIR:-target}/release/instructions"

count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$binary" "$1" "$2" 2>&1 | awk '/Collected/ { print $4 }'
}

# Bytes of a message, messages, and the limit. What the start costs falls out of the difference of two counts.
failed=0
while read -r bytes messages limit; do
    each=$((($(count "$bytes" $((2 * messages))) - $(count "$bytes" "$messages")) / messages))
    verdict=ok
    [ "$each" -le "$limit" ] || { verdict='TOO MANY'; failed=1; }
    printf '%6d bytes: %7d instructions a message, at most %7d: %s\n' "$bytes" "$each" "$limit" "$verdict"
done <<'LIMITS'
64 10000 1750
1024 5000 5500
65536 100 380000
LIMITS
exit "$failed"
