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
fail() { echo "gate: $1" >&2; exit 2; }
git() { command git "$@" 9>&-; }  # without the lock below, which a daemon of git's would hold for ever
[ -f "$1" ] || fail "$1 does not exist: name the spec of the measurement"
command -v unperturbed >/dev/null ||
    fail "there is no unperturbed on PATH: install it (pip install 'unperturbed[analysis]') or activate its environment"
root=$(git rev-parse --show-toplevel) ||
    fail "git finds no repository in $PWD (see its message above): call the gate in a clone of the program's repository"
git rev-parse --verify --quiet 'HEAD^{commit}' >/dev/null ||
    fail "$root has no commits: commit the program, and then the change to measure"
base=${2:-${GITHUB_BASE_REF:+origin/$GITHUB_BASE_REF}}
base=${base:-HEAD^}
found=$(git rev-parse --verify --quiet "$base^{commit}") || {
    [ "$base" != HEAD^ ] || [ "$(git rev-parse --is-shallow-repository)" != false ] ||
        fail "HEAD is the first commit of $root, with none before it to compare with: name a base"
    fail "there is no commit $base here: fetch it (actions/checkout: fetch-depth: 0), or name another base"
}
if { [ -e "$root/gate" ] || [ -L "$root/gate" ]; } && [ ! -e "$root/gate/made-by-gate" ]; then
    fail "$root/gate is not a folder of this script, which keeps its results there: rename yours"
fi
mkdir -p "$root/gate"
exec 9>"$root/gate/made-by-gate"
if command -v flock >/dev/null; then  # 1: locked; other codes: the file system has no locks
    locked=0
    flock -n 9 || locked=$?
    [ "$locked" != 1 ] || fail "another gate is at work in $root/gate: wait until it ends, or use another clone"
fi
# The spec is not of HEAD: it is read as it is.
spec=$(git --literal-pathspecs ls-files --full-name -- "$1" 2>/dev/null || :)
git diff --name-only HEAD | grep -vxF -e "$spec" | awk '
    NR <= 3 { names = names (NR > 1 ? ", " : "") $0 }
    END {
        if (NR > 3) names = names " and " NR - 3 " more"
        if (NR) print "gate: note: uncommitted changes are not measured: the gate measures HEAD (" names ")"
    }' >&2
for name in base change; do  # forced twice, which removes locked ones too
    git worktree remove --force --force "$root/gate/$name" 2>/dev/null || rm -rf "$root/gate/$name"
done
git worktree prune
rm -rf "$root/gate/campaign" "$root/gate"/report.*  # a run that fails must not leave the last one's report
echo '*' >"$root/gate/.gitignore"
checkout() {
    git worktree add --quiet --detach "$root/gate/$1" "$2" ||
        fail "git cannot check out the commit $2 in $root/gate/$1: see its message above"
    [ ! -e "$root/gate/$1/.gitmodules" ] || git -C "$root/gate/$1" submodule update --init --recursive --quiet ||
        fail "git cannot check out the submodules of $2 in $root/gate/$1 (see its message above): make them readable \
from here, or leave out one that the build does not need (git config submodule.NAME.update none)"
}
checkout base "$found"
checkout change "$(git rev-parse HEAD)"
cp -- "$1" "$root/gate/gate.yaml"
cd "$root/gate"
# In a session of its own, the run gets each signal once: from this script, or from the kernel if the script is killed.
# A shell has what it starts in the background ignore SIGINT, which may be what stops a service.
apart="setsid setpriv --pdeathsig TERM env --default-signal=INT,QUIT"
$apart true 2>/dev/null || apart=
stopped() {
    trap '' HUP INT TERM
    kill -TERM "$run" 2>/dev/null || :
    wait "$run" || :
    echo "gate: stopped by signal $1: nothing is known about the change, and the next gate measures anew" >&2
    exit $((128 + $1))
}
$apart unperturbed run gate.yaml --campaign campaign &
run=$! code=0
trap 'stopped 1' HUP
trap 'stopped 2' INT
trap 'stopped 15' TERM
wait "$run" || code=$?
trap - HUP INT TERM
case $code in
    0 | 4)
        cp campaign/report.html report.html
        unperturbed report campaign --format markdown --out report.md >/dev/null
        said='**The gate passes.**'
        [ "$code" = 0 ] || said='**The gate fails**, by `fail_on` in its spec (exit code 4).'
        printf '%s\n\n' "$said" | cat - report.md >whole.md && mv whole.md report.md
        unperturbed report campaign --format junit --out report.xml >/dev/null
        [ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat report.md >>"$GITHUB_STEP_SUMMARY" ||
            echo "gate: warning: cannot write to $GITHUB_STEP_SUMMARY (GITHUB_STEP_SUMMARY): read gate/report.md" >&2
        ;;
esac
exit "$code"
