#!/bin/sh
# Builds wheels for x86_64 and aarch64 Linux with glibc 2.28 or later (manylinux_2_28), compiled by the
# clang of PyPI's ziglang, which has the C library of every version and both processors.
#
#   sh runtime/python/wheel.sh [FOLDER]      into FOLDER (build/wheels)
#
# That for x86_64 has kernels for x86-64-v3 and v4, compiled by LOCKSTEP_CC, which is zig too unless
# it is set. They take some 15 minutes, unless LOCKSTEP_CACHE_DIR has them, and are made where the
# library runs: not on aarch64. LOCKSTEP_KERNELS=off leaves them out.
#
# LOCKSTEP_PYTHON names a Python that has scikit-build-core, ziglang and wheel; without, an environment
# that has them is made in build/wheel. Needs cmake and ninja, and no C compiler of the system's.
set -e
cd "$(dirname "$0")/../.."
glibc=2.28
work=$PWD/build/wheel
mkdir -p "${1:-build/wheels}" "$work"
folder=$(cd "${1:-build/wheels}" && pwd)
python=${LOCKSTEP_PYTHON:-python3}

if ! "$python" -c 'import scikit_build_core, wheel, ziglang' 2>/dev/null; then
    [ -d "$work/venv" ] || python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet scikit-build-core wheel ziglang
    python=$work/venv/bin/python
fi
python=$(command -v "$python")

# What CMake takes for a compiler is one program without arguments.
tool() {
    printf '#!/bin/sh\nexec "%s" -m ziglang %s "$@"\n' "$python" "$2" >"$work/$1"
    chmod +x "$work/$1"
}
tool ar ar
tool ranlib ranlib
# Kernels are compiled one by one: by zig itself, without Python's start.
zig=$("$python" -c 'import ziglang; print(ziglang.__path__[0] + "/zig")')
export LOCKSTEP_CC="${LOCKSTEP_CC:-$zig cc}"

for processor in x86_64 aarch64; do
    tool "cc-$processor" "cc -target $processor-linux-gnu.$glibc"
    set -- -C "cmake.define.CMAKE_C_COMPILER=$work/cc-$processor" -C "cmake.define.CMAKE_AR=$work/ar" \
        -C "cmake.define.CMAKE_RANLIB=$work/ranlib" -C "build-dir=$work/$processor"
    if [ "$processor" != "$(uname -m)" ]; then
        # The programs that write sources run here: those of the build for this machine.
        set -- "$@" -C cmake.define.CMAKE_SYSTEM_NAME=Linux -C "cmake.define.CMAKE_SYSTEM_PROCESSOR=$processor" \
            -C "cmake.define.LOCKSTEP_HOST_TOOLS=$work/$(uname -m)"
        # strip is of this machine
        set -- "$@" -C install.strip=false -C "cmake.define.CMAKE_SHARED_LINKER_FLAGS=-s" \
            -C "cmake.define.CMAKE_EXE_LINKER_FLAGS=-s"
    fi
    if [ "$processor$LOCKSTEP_KERNELS" = x86_64 ] && [ "$(uname -m)" = x86_64 ]; then
        set -- "$@" -C "cmake.define.LOCKSTEP_WHEEL_KERNELS=x86-64-v3;x86-64-v4"
    fi
    rm -rf "$work/made"
    "$python" -m pip wheel --quiet --no-build-isolation --no-deps "$@" --wheel-dir "$work/made" .
    "$python" -m wheel tags --remove --platform-tag \
        "manylinux_$(echo $glibc | tr . _)_$processor" "$work"/made/*.whl >/dev/null
    mv "$work"/made/*.whl "$folder"
done
ls -l "$folder"
