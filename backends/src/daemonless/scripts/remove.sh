# Ends what is left of processes and who looks after them, and removes what is kept of them. Arguments: their ids.
for id do
    for member in $(grep -lE "HANGAR_(PROCESS_ID|SUPERVISES)=$id" /proc/[0-9]*/environ 2>/dev/null); do
        member=${member#/proc/}
        kill -9 "${member%/environ}" 2>/dev/null
    done
    rm -f "${HOME:-/}/.hangar/bg/$id".*
done
