# Removes what is kept of processes that have ended. Arguments: their ids.
for id do
    rm -f "${HOME:-/}/.hangar/bg/$id".*
done
