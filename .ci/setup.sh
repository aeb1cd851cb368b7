# shellcheck shell=sh
# Sourced by examples/quickstart.sh and tests/run.sh, with the checkout as the working directory.
#   need PACKAGE THING            adds PACKAGE to $missing unless THING is a command or a file
#   install_packages PACKAGE...   installs Debian packages as root or through sudo (apt's words go to
#                                 build/install.log), or says what to install and stops the script
#   configure_build               prepares build/ with ninja, else make, unless that is done
missing=""

say() { printf '\n== %s\n' "$*"; }
have() { command -v "$1" >/dev/null 2>&1; }
need() { [ -e "$2" ] || have "$2" || missing="$missing $1"; }

install_packages() {
    if ! have apt-get; then
        echo "$0: please install these first (Debian's names): $*" >&2
        exit 1
    fi
    as_root=""
    if [ "$(id -u)" != 0 ]; then
        # sudo asks for a password where somebody can type one.
        if ! have sudo || ! { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
            echo "$0: packages are missing, and only root can install them. As root:" >&2
            echo "    apt-get update && apt-get install --no-install-recommends $*" >&2
            exit 1
        fi
        as_root="sudo"
    fi
    say "Installing $*"
    mkdir -p build
    if ! { $as_root apt-get update -qq &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
            -o DPkg::Lock::Timeout=120 --no-install-recommends "$@"; } >build/install.log 2>&1; then
        tail -n 20 build/install.log
        echo "$0: apt-get could not install $* (all it said: build/install.log)" >&2
        exit 1
    fi
}

configure_build() {
    if [ -f build/build.ninja ] || [ -f build/Makefile ]; then
        return 0
    fi
    mkdir -p build
    rm -rf build/CMakeCache.txt build/CMakeFiles # of a run that ended before its time
    generator="Unix Makefiles"
    if have ninja; then
        generator=Ninja
    fi
    cmake -S . -B build -G "$generator" >build/configure.log 2>&1 || {
        cat build/configure.log
        exit 1
    }
}
