#!/usr/bin/env bash
# Runs the tests, one worker per core with one thread each; tests/conftest.py says which worker takes what.
set -euo pipefail
python=$1
shift
exec "$python" -m pytest --numprocesses logical --maxprocesses 4 --no-loadscope-reorder "$@"
