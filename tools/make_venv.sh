#!/usr/bin/env bash
# Make the virtual environment that the Makefile's targets run in: tools/make_venv.sh DIRECTORY
# PYTHON names the interpreter (default python3). A working environment is left as it is.
set -euo pipefail

venv=$1
python=${PYTHON:-python3}

fail() {
    printf 'make_venv.sh: %s\n' "$1" >&2
    exit 1
}

if "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi

command -v "$python" >/dev/null || fail "no '$python' here; install Python 3.11 or newer, or run make PYTHON=/path/to/python3.11"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "'$python' is $("$python" --version 2>&1); Tack needs 3.11 or newer: run make PYTHON=/path/to/python3.11"

# Debian splits ensurepip off into python3-venv: `import venv` alone succeeds without it.
if ! "$python" -c 'import ensurepip, venv; ensurepip.version()' 2>/dev/null; then
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        echo "make_venv.sh: '$python' cannot make environments; installing Debian's python3-venv"
        apt-get -q update
        DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3-venv
    else
        fail "'$python' has no ensurepip; on Debian or Ubuntu run: sudo apt-get install python3-venv"
    fi
fi

"$python" -m venv --clear "$venv"
