#!/bin/sh
# Measures a change of a program beside its base, and fails if the spec's verdict does; for pipelines (docs/how-to/gate.md).
#
#   tools/gate.sh SPEC [BASE]     BASE: the commit to compare HEAD with (default: origin/$GITHUB_BASE_REF, or else HEAD^)
#
# Both commits are checked out beside each other in gate/, as `base` and `change`, which the spec names as sources.
# gate/campaign keeps everything; gate/report.html, report.md and report.xml (JUnit) are for the pipeline to keep or show.
set -eu
case ${1:-} in
--help | -h) sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0"; exit 0 ;;
"") echo "usage: tools/gate.sh SPEC [BASE]" >&2; exit 2 ;;
esac
[ -f "$1" ] || { echo "gate: $1 does not exist: name the spec of the measurement" >&2; exit 2; }
base=${2:-${GITHUB_BASE_REF:+origin/$GITHUB_BASE_REF}}
base=${base:-HEAD^}
found=$(git rev-parse --verify --quiet "$base^{commit}") || {
    echo "gate: there is no commit $base here: fetch it (actions/checkout: fetch-depth: 0), or name another base" >&2
    exit 2
}
root=$(git rev-parse --show-toplevel)
if [ -e "$root/gate" ] && [ ! -e "$root/gate/made-by-gate" ]; then
    echo "gate: $root/gate is not a folder of this script, which keeps its results there: rename yours" >&2
    exit 2
fi
for name in base change; do
    git worktree remove --force "$root/gate/$name" 2>/dev/null || rm -rf "$root/gate/$name"
done
git worktree prune
rm -rf "$root/gate/campaign"
mkdir -p "$root/gate"
: >"$root/gate/made-by-gate"
echo '*' >"$root/gate/.gitignore"
git worktree add --quiet --detach "$root/gate/base" "$found"
git worktree add --quiet --detach "$root/gate/change" HEAD
cp "$1" "$root/gate/gate.yaml"
cd "$root/gate"
code=0
unperturbed run gate.yaml --campaign campaign || code=$?
case $code in
    0 | 4)
        cp campaign/report.html report.html
        unperturbed report campaign --format markdown --out report.md >/dev/null
        said='**The gate passes.**'
        [ "$code" = 0 ] || said='**The gate fails**, by `fail_on` in its spec (exit code 4).'
        printf '%s\n\n' "$said" | cat - report.md >whole.md && mv whole.md report.md
        unperturbed report campaign --format junit --out report.xml >/dev/null
        [ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat report.md >>"$GITHUB_STEP_SUMMARY"
        ;;
esac
exit "$code"
