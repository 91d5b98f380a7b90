#!/usr/bin/env bash
# Creates the virtual environment FOLDER with a Python that is new enough, or says what is missing.
set -euo pipefail
folder=$1

for candidate in ${PYTHON:-python3.11 python3 python}; do
  "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
  echo "Creating $folder with $("$candidate" --version)."
  "$candidate" -m venv "$folder" && exit 0
  rm -rf "$folder"
  echo "This Python cannot create virtual environments. On Debian: apt-get install python3-venv" >&2
  exit 1
done
echo "Specdec Lab needs Python 3.11 or newer, and none was found. Name one with: make run PYTHON=/path/to/python" >&2
exit 1
