#!/bin/sh
# Installs the clients of other languages that tests/tests/peers_*.rs run, under target/peers.
# HANGAR_PEERS=1 makes those tests fail, instead of skipping, where one of them is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
peers=${CARGO_TARGET_DIR:-$here/../../target}/peers
mkdir -p "$peers"
python3 -m venv "$peers/python"
"$peers/python/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"
cp "$here/package.json" "$here/package-lock.json" "$peers/"
npm ci --prefix "$peers" --silent --no-audit --no-fund
