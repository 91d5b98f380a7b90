#!/usr/bin/env bash
# Runs the tests. First all that need no browser, one worker per core with one thread each; then those that do, one after
# the other: they wait for a page, and should not wait for each other.
set -uo pipefail
python=$1
shift

part() {
  "$python" -m pytest "$@"
  local code=$?
  [ "$code" = 0 ] && ran=yes
  [ "$code" = 0 ] || [ "$code" = 5 ] || failed=$code # 5: nothing here was asked for
}

ran='' failed=''
part --numprocesses auto --maxprocesses 4 --dist loadfile --ignore tests/browser --ignore tests/player "$@"
part --ignore tests/app --ignore tests/core --ignore tests/training "$@"
[ -n "$failed" ] && exit "$failed"
[ -n "$ran" ] || { echo "No test was found by: $*" >&2; exit 5; }
