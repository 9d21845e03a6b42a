#!/bin/sh
# What tests need of the machine besides Python, by name: Debian's packages where something is missing, else it is named.
# A browser that no package brings is fetched by Playwright.
set -eu
has() { command -v "$1" > /dev/null; }

package_of() {
  case $1 in
    chromium) has chromium || has chromium-browser || has google-chrome || has google-chrome-stable || echo chromium fonts-dejavu-core ;;
    node) has node || echo nodejs ;;
    cc) has cc || echo gcc libc6-dev ;;
    *) has "$1" || echo "$1" ;;
  esac
}

missing=
for name; do missing="$missing $(package_of "$name")"; done
missing=$(echo $missing)
[ -n "$missing" ] || exit 0

sudo=
[ "$(id -u)" = 0 ] || sudo="sudo -n"
if has apt-get && $sudo true 2> /dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  $sudo apt-get update -qq
  if $sudo apt-get install -y -qq --no-install-recommends $missing; then exit 0; fi
fi
case $missing in
  "chromium fonts-dejavu-core") exec .venv/bin/playwright install chromium ;;
esac
echo "These tests need: $missing. Install that, or let this user install packages with sudo, and say it again." >&2
exit 1
