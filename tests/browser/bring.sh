#!/bin/sh
# A Chromium for the tests of the page: the system's if there is one, else Debian's, else the one that Playwright fetches.
set -eu
for name in chromium chromium-browser google-chrome google-chrome-stable; do
  if command -v "$name" > /dev/null; then exit 0; fi
done
sudo=
[ "$(id -u)" = 0 ] || sudo="sudo -n"
if command -v apt-get > /dev/null && $sudo true 2> /dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  $sudo apt-get update -qq
  if $sudo apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; then exit 0; fi
fi
exec .venv/bin/playwright install chromium
