#!/bin/sh
# Installs the clients of other languages that tests/tests/peers_*.rs run, under target/peers, and the programs that
# tests/tests/cli_terminal.rs has a terminal of and shows in it.
# HANGAR_PEERS=1 makes those tests fail, instead of skipping, where one of them is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
peers=${CARGO_TARGET_DIR:-$here/../../target}/peers
mkdir -p "$peers"
missing=
for program in tmux less vim; do
    command -v "$program" >/dev/null || missing="$missing $program"
done
# top and pkill
command -v top >/dev/null && command -v pkill >/dev/null || missing="$missing procps"
if [ -n "$missing" ]; then
    apt-get update -qq
    # shellcheck disable=SC2086 # one word for each
    apt-get install -qq -y $missing >/dev/null
fi
python3 -m venv "$peers/python"
"$peers/python/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"
# Where the packages are that it imports.
cp "$here/package.json" "$here/package-lock.json" "$here/conformance.mjs" "$peers/"
npm ci --prefix "$peers" --silent --no-audit --no-fund
