#!/bin/sh
# The tests that need PyTorch or JAX: makes an environment with both, and with what executes notebooks,
# in build/python, and runs what tests/run.sh has for Python with it.
#
#   sh tests/python.sh             the tests of the Python package, of lockstep.torch and lockstep.jax
#   sh tests/python.sh --wheels    builds the release's wheels too (runtime/python/wheel.sh), and checks them
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
        "$LOCKSTEP_PYTHON" tests/lit/python/Inputs/wheel.py "$wheel" 2000000 2.28
    done
fi
sh tests/run.sh ':: (python|pytorch|jax)/'
