#!/bin/sh
# Sets up what a goal of the Makefile needs, and nothing that is there already.
#
#   tools/setup.sh run     the tool and what it measures with
#   tools/setup.sh test    the same, and what the tests and checks need
#   tools/setup.sh bench   the same as for the tests, and tools to read what was counted
#   tools/setup.sh pmu     the same as for the tests, and an emulated machine with a real PMU
#   tools/setup.sh machines  the same, and emulated machines of other kinds
#   tools/setup.sh attack  the same as for the tests, clang's sanitisers, and atheris where it can be had
#   tools/setup.sh media   the same as for the tests, and GStreamer, whose traces the experiment on diagnosis records
#
# Debian packages that are missing are installed as root, or by sudo when it asks no password; otherwise the one command to type is
# printed and the exit code is 3. Python packages go to .venv in the checkout.
set -eu
cd "$(dirname "$0")/.."
goal=${1:-run}

say() { printf '%s\n' "$*" >&2; }

find_python() {
    for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        path=$(command -v "$candidate" 2>/dev/null) || continue
        if "$path" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$path"
            return
        fi
    done
    say "Python 3.11 or newer is needed and was not found. On Debian: apt-get install python3 python3-venv"
    exit 3
}

has_library() { { ldconfig -p 2>/dev/null || /sbin/ldconfig -p; } | grep -q "$1"; }

python=$(find_python)
missing=
need() { missing="$missing $1"; }
command -v gcc >/dev/null || need gcc
command -v make >/dev/null || need make
{ command -v valgrind >/dev/null && [ -f /usr/include/valgrind/callgrind.h ]; } || need valgrind
[ -f /usr/include/stdio.h ] || need libc6-dev
command -v setpriv >/dev/null || need util-linux
command -v dpkg-source >/dev/null || need dpkg-dev
has_library 'libpapi\.so' || need libpapi-dev
"$python" -c 'import ensurepip' 2>/dev/null || need python3-venv
if [ "$goal" != run ]; then
    command -v g++ >/dev/null || need g++
    command -v chromium >/dev/null || need chromium
    command -v chromedriver >/dev/null || need chromium-driver
    command -v git >/dev/null || need git
    command -v xz >/dev/null || need xz-utils
    command -v zsh >/dev/null || need zsh
    command -v fish >/dev/null || need fish
    command -v perf >/dev/null || need linux-perf
    command -v babeltrace2 >/dev/null || need babeltrace2
    # What programs are built with elsewhere: other compilers, linkers, build systems and caches.
    command -v clang >/dev/null || need clang
    command -v ld.lld >/dev/null || need lld
    command -v cmake >/dev/null || need cmake
    command -v ninja >/dev/null || need ninja-build
    command -v ccache >/dev/null || need ccache
    command -v distcc >/dev/null || need distcc
    command -v hyperfine >/dev/null || need hyperfine
    command -v csmith >/dev/null || need csmith
    # Managed runtimes, and other compilers.
    command -v javac >/dev/null || need default-jdk-headless
    command -v go >/dev/null || need golang-go
    command -v rustc >/dev/null || need rustc
    # Services, and what generates their load.
    command -v redis-server >/dev/null || need redis-server
    command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || need nginx-light
    command -v ab >/dev/null || need apache2-utils
    # Both kinds of MPI, which can be installed beside each other.
    command -v mpicc.mpich >/dev/null || need mpich
    command -v mpicc.openmpi >/dev/null || need libopenmpi-dev
    command -v mpirun.openmpi >/dev/null || need openmpi-bin
    /usr/bin/python3 -c 'import mpi4py' 2>/dev/null || need python3-mpi4py
    [ -e "/usr/include/$(gcc -print-multiarch 2>/dev/null)/mpich/mpi.h" ] || need libmpich-dev
    # A cluster of three nodes in a temporary folder, for campaigns on nodes.
    has_daemon() { command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ]; }
    has_daemon slurmctld || need slurmctld
    has_daemon slurmd || need slurmd
    command -v sbatch >/dev/null || need slurm-client
    has_daemon munged || need munge
    [ -f /usr/include/x86_64-linux-gnu/sys/sdt.h ] || [ -f /usr/include/sys/sdt.h ] || need systemtap-sdt-dev
fi
if [ "$goal" = bench ]; then
    command -v addr2line >/dev/null || need binutils
    [ -f "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] || need python3-dev
fi
if [ "$goal" = machines ]; then
    command -v qemu-system-riscv64 >/dev/null || need "qemu-system-misc opensbi"
    command -v qemu-system-x86_64 >/dev/null || need qemu-system-x86
    command -v riscv64-linux-gnu-gcc >/dev/null || need gcc-riscv64-linux-gnu
    [ -f /usr/riscv64-linux-gnu/include/stdio.h ] || need libc6-dev-riscv64-cross
fi
if [ "$goal" = pmu ] || [ "$goal" = machines ]; then
    command -v qemu-system-aarch64 >/dev/null || need qemu-system-arm
    command -v aarch64-linux-gnu-gcc >/dev/null || need gcc-aarch64-linux-gnu
    [ -f /usr/aarch64-linux-gnu/include/stdio.h ] || need libc6-dev-arm64-cross
fi
if [ "$goal" = attack ]; then
    clang_version=$(clang --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p' | head -n 1)
    [ -n "$(find "$(clang -print-resource-dir 2>/dev/null || echo /nowhere)" -name 'libclang_rt.fuzzer*' 2>/dev/null | head -n 1)" ] ||
        need "libclang-rt-${clang_version:-14}-dev"
fi
if [ "$goal" = media ]; then
    has_element() { gst-inspect-1.0 --exists "$1" 2>/dev/null; }
    command -v gst-launch-1.0 >/dev/null || need gstreamer1.0-tools
    has_element theoradec || need gstreamer1.0-plugins-base
    has_element matroskademux || need gstreamer1.0-plugins-good
    has_element avdec_mpeg4 || need gstreamer1.0-libav
fi
if [ -n "$missing" ]; then
    install="install -y --no-install-recommends$missing"
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif sudo -n true 2>/dev/null; then
        as_root="sudo -n"
    else
        say "Debian packages are missing:$missing. Type this, then the same command again:"
        say "    sudo apt-get update && sudo apt-get $install"
        exit 3
    fi
    say "installing Debian packages:$missing"
    log=$(mktemp)
    deadline=$(($(date +%s) + 900))
    waiting=
    # apt waits by itself for dpkg's locks alone, not for those of its own lists and archives.
    apt() {
        until $as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=60 "$@" >"$log" 2>&1; do
            grep -q 'Could not get lock' "$log" && [ "$(date +%s)" -lt "$deadline" ] || return 1
            [ -n "$waiting" ] || say "waiting for another installation of Debian packages to end"
            waiting=yes
            sleep 2
        done
    }
    if ! { apt update && apt $install; }; then
        tail -n 5 "$log" >&2
        say "the packages could not be installed; the whole log is $log. Type this, then the same command again:"
        say "    sudo apt-get update && sudo apt-get $install"
        exit 3
    fi
    rm -f "$log"
fi

asked=$goal
add_atheris() {
    [ "$asked" != attack ] || .venv/bin/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("atheris") is None)' ||
        .venv/bin/python -m pip install --quiet --disable-pip-version-check 'atheris>=3,<4' ||
        say "atheris is not to be had for this Python: the fuzzers change inputs at random"
}
case $goal in # what the Python packages are for
run | bench) ;;
*) goal=test ;;
esac
# The installed package is a tree of links to the checkout's files: a file added or removed means installing again.
key=$({ "$python" --version; cat pyproject.toml setup.py tools/setup.sh; find src common errors harness collectors instrument analysis -type f ! -name '*.pyc' | sort; } | sha256sum | cut -d' ' -f1)
stamp=".venv/.set-up-for-$goal"
larger="$stamp .venv/.set-up-for-bench"
[ "$goal" = run ] && larger="$larger .venv/.set-up-for-test"
for done in $larger; do # what the benchmarks need holds what the tests need, and that what a run needs
    if [ -f "$done" ] && [ "$(cat "$done")" = "$key" ]; then
        add_atheris
        exit 0
    fi
done
[ -x .venv/bin/python ] || { say "making the virtual environment .venv"; "$python" -m venv .venv; }
what='.[all]'
[ "$goal" = run ] || what='.[dev]'
say "installing Python packages"
rm -rf build
install() { "$1/bin/python" -m pip install --quiet --disable-pip-version-check -e "$2" --config-settings editable_mode=strict; }
install .venv "$what"
if [ "$goal" = bench ]; then
    [ -x .venv-peers/bin/python ] || "$python" -m venv .venv-peers
    say "installing the libraries that the benchmarks stand beside"
    install .venv-peers '.[peers]'
    .venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation 'linmdtw>=0.1.7,<0.2'
fi
if [ "$goal" = run ]; then # tests compile what they need
    say "compiling the analyses' loops"
    .venv/bin/unperturbed cache warm alignment >/dev/null 2>&1 || say "that failed; they are compiled when they are first used"
fi
printf '%s' "$key" >"$stamp"
add_atheris
