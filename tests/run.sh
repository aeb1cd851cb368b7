#!/bin/sh
# Builds everything into build/ and runs every test. On a bare Debian 12 it installs what is missing
# first; with everything in place it uses no network. The last line counts all tests.
#
#   sh tests/run.sh             everything
#   sh tests/run.sh FILTER      the tests whose name matches the regular expression FILTER
set -e
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }
have() { command -v "$1" >/dev/null 2>&1; }
lit=/usr/lib/llvm-14/build/utils/lit/lit.py
toolchains=$PWD/build/toolchains

# Packages, each with the thing that shows it is there.
missing=""
need() { [ -e "$2" ] || have "$2" || missing="$missing $1"; }
library="/usr/lib/$(uname -m)-linux-gnu"
need gcc gcc
need clang clang
need libc6-dev /usr/include/stdio.h
need cmake cmake
need ninja-build ninja
need python3 python3
need llvm-14-tools "$lit"
need libcmocka-dev /usr/include/cmocka.h
need libamdhip64-dev "$library/libamdhip64.so"
if [ -n "$missing" ]; then
    say "Installing$missing"
    if ! have apt-get; then
        echo "tests/run.sh: please install$missing" >&2
        exit 1
    fi
    root=""
    [ "$(id -u)" = 0 ] || root=sudo
    $root apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends $missing
fi

# NVRTC: the CUDA toolkit's where there is one, else NVIDIA's wheel, unpacked beside the build.
find_nvrtc() {
    for file in /usr/local/cuda*/lib64/libnvrtc.so /usr/local/cuda*/targets/*/lib/libnvrtc.so \
        "$library"/libnvrtc.so* "$toolchains"/nvidia/*/lib/libnvrtc.so*; do
        [ -e "$file" ] && echo "$file" && return
    done
}
if [ -z "$LOCKSTEP_NVRTC" ] && [ -z "$(find_nvrtc)" ]; then
    say "Fetching NVRTC (no CUDA toolkit here) into build/toolchains"
    mkdir -p "$toolchains"
    if ! python3 -m pip --version >/dev/null 2>&1; then
        root=""
        [ "$(id -u)" = 0 ] || root=sudo
        $root apt-get update -qq
        DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends python3-pip
    fi
    if python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$toolchains" \
        'nvidia-cuda-nvrtc-cu12>=12.8'; then
        python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])' \
            "$toolchains"/nvidia_cuda_nvrtc*.whl "$toolchains"
    else
        echo "tests/run.sh: no NVRTC: the tests that need it are skipped" >&2
    fi
fi
if [ -z "$LOCKSTEP_NVRTC" ]; then
    nvrtc=$(find_nvrtc)
    [ -z "$nvrtc" ] || export LOCKSTEP_NVRTC="$nvrtc"
fi

say "Building (build/)"
if [ ! -f build/CMakeCache.txt ]; then
    cmake -S . -B build -G Ninja
fi
cmake --build build --parallel 2

say "Running the tests (lit)"
status=0
python3 "$lit" --workers 2 --show-unsupported --verbose --output build/tests/results.json \
    ${1:+--filter "$1"} build/tests/lit build/tests/executables || status=$?
python3 tests/lit/count.py build/tests/results.json || status=1
exit "$status"
