#!/usr/bin/env bash
# Runs the tests, one thread per worker; tests/conftest.py says which worker takes what. One worker more than cores:
# those with pages wait for one answer after another, and left a sixth of two cores idle.
set -euo pipefail
python=$1
shift
workers=$("$python" -c 'import os; print(min(4, 1 + (os.cpu_count() or 1)))')
exec "$python" -m pytest --numprocesses "$workers" --no-loadscope-reorder "$@"
