#!/usr/bin/env bash
# Makes sure that the browser tests have a Chromium: the system's, Debian's by apt as root, or else Playwright's own.
set -euo pipefail
python=$1

system_chromium() {
  local name
  for name in chromium chromium-browser google-chrome; do
    # Ubuntu's chromium package is a hint to install a snap: only one that answers counts.
    if "$name" --version >/dev/null 2>&1; then
      echo "Browser tests use $(command -v "$name")."
      return
    fi
  done
  return 1
}

system_chromium && exit 0

own=$("$python" -c 'from playwright.sync_api import sync_playwright
with sync_playwright() as p: print(p.chromium.executable_path)')
if [ -x "$own" ]; then
  echo "Browser tests use Playwright's Chromium."
  exit 0
fi

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "Installing Chromium and fonts with apt-get, for the browser tests."
  export DEBIAN_FRONTEND=noninteractive
  if apt-get update -qq && apt-get install -y -qq --no-install-recommends \
      chromium fonts-dejavu-core fonts-noto-color-emoji >/dev/null; then
    system_chromium && exit 0
  fi
fi

echo "Installing Playwright's own Chromium, for the browser tests."
"$python" -m playwright install chromium && exit 0
echo "No Chromium was found and none could be installed. Install one (on Debian: apt-get install chromium)" \
  "or run the other tests: $python -m pytest -m 'not browser'" >&2
exit 1
