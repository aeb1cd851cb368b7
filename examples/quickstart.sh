#!/bin/sh
# From a fresh checkout to a model in training: installs what is missing (Debian, Ubuntu), builds into
# build/, and trains a linear model with a kernel that Lockstep generates on the spot.
set -e
cd "$(dirname "$0")/.."

. .ci/setup.sh

have clang || have gcc || need gcc gcc
need cmake cmake
have make || need ninja-build ninja
have apt-get && need libc6-dev /usr/include/stdio.h
# examples/charlm does without it, only slowly: it comes along where packages come anyhow.
[ -z "$missing" ] || need libopenblas0 "/usr/lib/$(uname -m)-linux-gnu/libopenblas.so.0"
# shellcheck disable=SC2086
[ -z "$missing" ] || install_packages $missing

say "Building Lockstep into build/"
configure_build
cmake --build build --parallel "$(nproc)" --target lockstep_installed linreg charlm grpo >build/build.log 2>&1 ||
    { tail -n 40 build/build.log; exit 1; }
echo "done: build/lockstep, and linreg, charlm and grpo in build/examples"

say "The devices of this machine (build/lockstep devices)"
build/lockstep devices || true

say "Training: 10,000 samples of 64 features, batches of 256, SGD, on the best device found"
build/examples/linreg/linreg --steps 1000

cat <<EOT

== What happened
examples/linreg/linreg.step, seven lines of formulas, was compiled into one kernel that does a whole
training step: forward pass, gradient, update, loss, count and NaN check. Each of the 40 minibatches was
captured once as a graph; training replayed the graphs, and the host only looked every 50 steps.

== Try next (in $PWD)
  build/lockstep explain examples/linreg/linreg.step --size b=256,k=64    the plan, and why it is one kernel
  build/lockstep emit examples/linreg/linreg.step --target cuda           the kernel, for people to read
  build/examples/charlm/charlm                                            a small GPT on a novel, in a few minutes
  build/examples/grpo/grpo                                                a game, and a policy that learns it in seconds
  sh examples/adamw/run.sh                                                AdamW on a .safetensors file
  build/lockstep bench examples/adamw/adamw.step --size n=16M             how near to the memory's limit
  sh tests/run.sh                                                         all tests
EOT
# A bare machine has no Python, and Lockstep needs none.
if command -v python3 >/dev/null 2>&1; then
    echo '  PYTHONPATH=runtime/python python3 -m lockstep --version                 the Python package, on this build'
fi
