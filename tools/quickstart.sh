#!/bin/sh
# The quickstart: one campaign on the compressor of experiments/quickstart/blocksort, then what its exit code means.
set -u
cd "$(dirname "$0")/.."
campaign=$1
.venv/bin/unperturbed run experiments/quickstart/quickstart.yaml --campaign "$campaign"
code=$?
case $code in
0) printf '\nExit code 0: no configuration was perturbed.\n' ;;
4) printf '\nExit code 4: the campaign went well, and its verdict is negative: at least one configuration was perturbed by measuring it.\nThat is what this example is made to show; a script of yours could stop here.\n' ;;
*) exit "$code" ;;
esac
[ -f "$campaign/report.html" ] || exit 1
printf 'Open the report in a browser: %s\n' "$(realpath "$campaign/report.html")"
