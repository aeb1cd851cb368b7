#!/bin/sh
# Builds everything into build/ and runs every test. On a bare Debian 12 it installs what is missing
# first; with everything in place it uses no network. The last line counts all tests.
#
#   sh tests/run.sh             everything
#   sh tests/run.sh FILTER      the tests whose name matches the regular expression FILTER
#
# LOCKSTEP_PYTHON names a Python with PyTorch and JAX (python3 may be one; tests/python.sh makes one);
# without, tests of lockstep.torch, lockstep.jax and the notebook are skipped.
set -e
cd "$(dirname "$0")/.."

. .ci/setup.sh
lit=/usr/lib/llvm-14/build/utils/lit/lit.py
toolchains=$PWD/build/toolchains
library="/usr/lib/$(uname -m)-linux-gnu"

# NVRTC: the CUDA toolkit's where there is one, else NVIDIA's wheel, unpacked beside the build.
find_nvrtc() {
    for file in /usr/local/cuda*/lib64/libnvrtc.so /usr/local/cuda*/targets/*/lib/libnvrtc.so \
        "$library"/libnvrtc.so* "$toolchains"/nvidia/*/lib/libnvrtc.so*; do
        if [ -e "$file" ]; then
            echo "$file"
            return
        fi
    done
}
[ -n "$LOCKSTEP_NVRTC" ] || LOCKSTEP_NVRTC=$(find_nvrtc)

# nvdisasm, which reads cubins for tests/machine: the CUDA toolkit's, else NVIDIA's wheel.
find_nvdisasm() {
    for file in "$LOCKSTEP_NVDISASM" /usr/local/cuda*/bin/nvdisasm "$toolchains"/disassembler/nvidia/*/bin/nvdisasm; do
        if [ -x "$file" ]; then
            echo "$file"
            return
        fi
    done
}

# Packages, each with the thing that shows it is there.
need gcc gcc
need clang clang
need clang-19 clang-19 # for AMD devices
need lld-19 ld.lld-19 # which links for them
need llvm-19 llvm-objdump-19 # which reads it
need libc6-dev /usr/include/stdio.h
need cmake cmake
need ninja-build ninja
need python3 python3
need pkg-config pkg-config
python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
need llvm-14-tools "$lit"
fuzzer=$(echo /usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a)
need libclang-rt-14-dev "${fuzzer%% *}"
need libcmocka-dev /usr/include/cmocka.h
need neovim nvim # a client of the language server
need libopenblas0 "$library/libopenblas.so.0"
need openmpi-bin mpirun.openmpi # ranks, by either interface of MPI
need libopenmpi-dev "$library/openmpi/include/mpi.h"
need mpich mpirun.mpich
need libmpich-dev "/usr/include/$(uname -m)-linux-gnu/mpich/mpi.h"
need iproute2 ip # and in namespaces of a network
need libamdhip64-dev "$library/libamdhip64.so"
if [ "$(uname -m)" = x86_64 ]; then # and what runs, emulated, on the other processor
    need gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc
    need libc6-dev-arm64-cross /usr/aarch64-linux-gnu/include/stdio.h
    need qemu-user-static qemu-aarch64-static
fi
[ -n "$LOCKSTEP_NVRTC" ] && [ -n "$(find_nvdisasm)" ] && [ -x "$toolchains/python/bin/python" ] || python3 -m pip --version >/dev/null 2>&1 || missing="$missing python3-pip"
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086
    install_packages $missing
    rm -f build/build.ninja build/Makefile # what came may be found now
fi

# A program for aarch64 starts others, so the kernel has to start such programs by qemu, which root
# may tell it; elsewhere device/aarch64.test is skipped.
formats=/proc/sys/fs/binfmt_misc
if [ "$(uname -m)" = x86_64 ] && [ "$(id -u)" = 0 ] && [ ! -e $formats/qemu-aarch64 ]; then
    [ -e $formats/register ] || mount -t binfmt_misc binfmt_misc $formats 2>/dev/null || true
    [ ! -e $formats/register ] || cat /usr/lib/binfmt.d/qemu-aarch64.conf >$formats/register || true
fi

if [ -z "$LOCKSTEP_NVRTC" ]; then
    say "Fetching NVRTC (no CUDA toolkit here) into build/toolchains"
    rm -rf "$toolchains" # what an interrupted run may have left
    if python3 -m pip download --quiet --retries 1 --no-deps --only-binary :all: \
        --dest "$toolchains/wheel" 'nvidia-cuda-nvrtc-cu12>=12.8'; then
        python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])' \
            "$toolchains"/wheel/nvidia_cuda_nvrtc*.whl "$toolchains/unpacked"
        mv "$toolchains/unpacked/nvidia" "$toolchains/nvidia"
        rm -rf "$toolchains/wheel" "$toolchains/unpacked"
        LOCKSTEP_NVRTC=$(find_nvrtc)
    else
        echo "tests/run.sh: NVRTC could not be fetched: the tests that need it are skipped" >&2
    fi
fi
if [ -n "$LOCKSTEP_NVRTC" ]; then
    export LOCKSTEP_NVRTC
else
    unset LOCKSTEP_NVRTC
fi

if [ -n "$LOCKSTEP_NVRTC" ] && [ -z "$(find_nvdisasm)" ]; then
    say "Fetching nvdisasm into build/toolchains"
    rm -rf "$toolchains/disassembler"
    if python3 -m pip download --quiet --retries 1 --no-deps --only-binary :all: \
        --dest "$toolchains/disassembler/wheel" 'nvidia-cuda-nvdisasm>=13.0'; then
        python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])' \
            "$toolchains"/disassembler/wheel/nvidia_cuda_nvdisasm*.whl "$toolchains/disassembler"
        chmod +x "$toolchains"/disassembler/nvidia/*/bin/nvdisasm
        rm -rf "$toolchains/disassembler/wheel"
    else
        echo "tests/run.sh: nvdisasm could not be fetched: machine-nvidia.test is skipped" >&2
    fi
fi
LOCKSTEP_NVDISASM=$(find_nvdisasm)
if [ -n "$LOCKSTEP_NVDISASM" ]; then export LOCKSTEP_NVDISASM; else unset LOCKSTEP_NVDISASM; fi

# What the tests of the Python package need: NumPy, mypy and the package's build system.
if [ ! -x "$toolchains/python/bin/python" ]; then
    say "Fetching NumPy, mypy and scikit-build-core into build/toolchains"
    rm -rf "$toolchains/wheels" "$toolchains/making"
    if python3 -m pip download --quiet --retries 1 --only-binary :all: --dest "$toolchains/wheels" \
        numpy mypy 'scikit-build-core>=0.11' && python3 -m venv "$toolchains/making" &&
        "$toolchains/making/bin/python" -m pip install --quiet --no-index --find-links "$toolchains/wheels" \
            numpy mypy scikit-build-core; then
        mv "$toolchains/making" "$toolchains/python"
    else
        rm -rf "$toolchains/making"
        echo "tests/run.sh: NumPy and mypy could not be fetched: tests of the Python package are skipped" >&2
    fi
fi

say "Building (build/)"
configure_build
cmake --build build --parallel 2

say "Running the tests (lit)"
status=0
rm -rf build/tests/results.json build/tests/simt_cache
python3 "$lit" --workers "$(($(nproc) + 1))" --show-unsupported --verbose --output build/tests/results.json \
    ${1:+--filter "$1"} build/tests/lit build/tests/executables || status=$?
[ -f build/tests/results.json ] || exit 1 # no test ran; lit said why
python3 tests/lit/count.py build/tests/results.json || status=1
exit "$status"
