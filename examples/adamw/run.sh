#!/bin/sh
# AdamW on the arrays of a .safetensors file, through the command alone: no program to write.
set -e
here=$(dirname "$0") root=$(dirname "$0")/../..
if [ -z "$LOCKSTEP$1" ]; then # the commands as one would type them in the checkout
    cd "$root"
    here=examples/adamw root=.
fi
lockstep=${LOCKSTEP:-$root/build/lockstep}
out=${1:-$root/build/examples/adamw}
if [ ! -x "$lockstep" ]; then
    echo "run.sh: no lockstep at $lockstep: build it first (sh examples/quickstart.sh), or set LOCKSTEP" >&2
    exit 1
fi
mkdir -p "$out"
set -x
"$lockstep" run "$here/inputs.step" weights='normal(100000; 1)' noise='normal(100000; 2)' \
    -o p="$out/model.safetensors" -o m="$out/model.safetensors" \
    -o v="$out/model.safetensors" -o g="$out/model.safetensors"
"$lockstep" explain "$here/adamw.step" --size n=100000
"$lockstep" run "$here/adamw.step" \
    p="$out/model.safetensors:p" m="$out/model.safetensors:m" \
    v="$out/model.safetensors:v" g="$out/model.safetensors:g" \
    count=0 lr=0.001 --repeat 10 --graph --stats \
    -o p="$out/p.safetensors" -o w="$out/w.safetensors" -o count=-
