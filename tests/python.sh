#!/bin/sh
# The tests that need PyTorch or JAX: makes an environment with both, and with what executes notebooks,
# in build/python, and runs what tests/run.sh has for Python with it.
#
#   sh tests/python.sh             the tests of the Python package, of lockstep.torch and lockstep.jax
#   sh tests/python.sh --wheels    builds the release's wheels too (runtime/python/wheel.sh), and
#                                  checks them: half an hour, of which kernels are the most
#
# LOCKSTEP_PYTHON names an environment of yours instead. PyTorch comes from PyPI, some gigabytes of it.
set -e
cd "$(dirname "$0")/.."
if [ -z "$LOCKSTEP_PYTHON" ]; then
    if [ ! -x build/python/bin/python ]; then
        mkdir -p build
        rm -rf build/python.making
        python3 -m venv build/python.making
        build/python.making/bin/pip install --quiet torch numpy jax optax nbclient ipykernel
        mv build/python.making build/python
    fi
    LOCKSTEP_PYTHON=$PWD/build/python/bin/python
fi
export LOCKSTEP_PYTHON
if [ "$1" = --wheels ]; then
    # In the environment that wheel.sh makes: what this one has need not have the build system.
    env -u LOCKSTEP_PYTHON sh runtime/python/wheel.sh build/wheels
    for wheel in build/wheels/*.whl; do
        case $wheel in
        *_x86_64.whl) set -- 8000000 x86-64-v3 x86-64-v4 ;;
        *) set -- 2621440 ;;
        esac
        most=$1
        shift
        "$LOCKSTEP_PYTHON" tests/lit/python/Inputs/wheel.py "$wheel" "$most" 2.28 "$@"
    done
    if [ "$(uname -m)" = x86_64 ] && grep -q avx2 /proc/cpuinfo; then
        # Every step that is said to run without a C compiler does, with the same bits.
        rm -rf build/wheels/fresh
        python3 -m venv build/wheels/fresh
        build/wheels/fresh/bin/pip install --quiet build/wheels/lockstep-*_x86_64.whl numpy
        fresh=$PWD/build/wheels/fresh/bin/python steps="$PWD/tests/lit/python/Inputs/steps.py"
        families="$(cd templates && echo std/optim/*.step std/norms.step std/activations.step std/losses.step)"
        families=$(echo "$families" | sed 's/\.step//g')
        mkdir -p build/wheels/empty
        (cd / && LOCKSTEP_KERNELS=off "$fresh" "$steps" "$OLDPWD/build/wheels/compiled" $families)
        (cd / && PATH="$OLDPWD/build/wheels/empty" LOCKSTEP_CACHE=off "$fresh" "$steps" \
            "$OLDPWD/build/wheels/ahead" $families)
        cmp build/wheels/compiled build/wheels/ahead
    fi
fi
sh tests/run.sh ':: (python|pytorch|jax)/'
