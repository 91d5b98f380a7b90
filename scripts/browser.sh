#!/usr/bin/env bash
# Makes sure that the browser tests have a Chromium: the system's, Debian's by apt as root, or else Playwright's own.
set -euo pipefail
python=$1

apt_install() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  echo "Installing with apt-get, for the browser tests: $*."
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

system_chromium() {
  local name
  for name in chromium-headless-shell chromium chromium-browser google-chrome; do
    # Ubuntu's chromium package is a hint to install a snap: only one that answers counts.
    if "$name" --version >/dev/null 2>&1; then
      echo "Browser tests use $(command -v "$name")."
      return
    fi
  done
  return 1
}

own_chromium() {
  local path
  path=$("$python" -c 'from playwright.sync_api import sync_playwright
with sync_playwright() as p: print(p.chromium.executable_path)') && [ -x "$path" ] || return 1
  echo "Browser tests use Playwright's Chromium."
}

# Playwright talks to browsers through a driver of its own, which a bare Debian cannot start without libatomic.
if ! "$python" -m playwright --version >/dev/null 2>&1 && ! apt_install libatomic1; then
  echo "Playwright's driver does not start here. On Debian: apt-get install libatomic1" >&2
  exit 1
fi

system_chromium || own_chromium && exit 0
apt_install chromium-headless-shell fonts-dejavu-core fonts-noto-color-emoji && system_chromium && exit 0
echo "Installing Playwright's own Chromium, for the browser tests."
"$python" -m playwright install chromium && exit 0
echo "No Chromium was found and none could be installed. Install one (on Debian: apt-get install chromium)" \
  "or run the other tests: $python -m pytest -m 'not browser'" >&2
exit 1
