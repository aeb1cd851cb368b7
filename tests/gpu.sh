#!/bin/sh
# On a machine with a GPU: builds, then does one of four parts, each within its own limit of time, and leaves one
# archive, RESULTS/gpu-PART.tgz, whose summary.md is to be read first. tests/bench/README.md says what the figures mean.
# Needs a C compiler, CMake with ninja or make, python3, and for CUDA the toolkit's NVRTC. PyTorch, Triton, JAX, CuPy,
# ncu and compute-sanitizer serve where they are there. No network, no lit, no cmocka.
set -eu

usage() {
    cat <<'END'
usage: sh tests/gpu.sh PART [OPTIONS] [RESULTS]

PART, in the order in which they are worth their time:
  smoke     what a trainer asks of the runtime, every function over all inputs, the
            quick execution matrix: every bit against the CPU and the interpreter
  rows      maps, rows and sums beside PyTorch, Triton, Liger, CuPy and JAX
  steps     optimizers over lists, mixed precision, training loops
  inspect   ncu on twelve kernels, compute-sanitizer on twenty programs, then the
            whole execution matrix with the time that is left

RESULTS     the folder for the archive gpu-PART.tgz (default: $OUT, else the build folder)

  --device cuda|hip|cpu   what to run on (cuda)
  --only REGEX            rows whose name matches
  --list                  the names of the rows
  --rounds N              of each measurement (7)
  --minutes M             the part's limit, the build included (8)
  --build DIR             where to build (build-gpu)
  --no-build              take what DIR holds
  --wheels DIR            pure Python wheels of peers that the machine lacks
                          (build-gpu-wheels)
  --tiny                  small sizes, to see that it works; figures mean nothing

Exit status: 0 when nothing failed.
END
}

here=$(cd "$(dirname "$0")/.." && pwd)
part='' device=cuda build='' results='' minutes=8 rounds=7 only='' tiny='' list='' make=yes
wheels=$here/build-gpu-wheels
fail() {
    echo "gpu.sh: $*" >&2
    exit 2
}
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h)
        usage
        exit 0
        ;;
    --device | --only | --rounds | --minutes | --build | --wheels)
        [ $# -gt 1 ] || fail "$1 wants a value; --help says more"
        case $1 in
        --device) device=$2 ;;
        --only) only=$2 ;;
        --rounds) rounds=$2 ;;
        --minutes) minutes=$2 ;;
        --build) build=$2 ;;
        --wheels) wheels=$2 ;;
        esac
        shift
        ;;
    --tiny) tiny=--tiny ;;
    --list) list=--list ;;
    --no-build) make=no ;;
    -*) fail "there is no option $1; --help says more" ;;
    smoke | rows | steps | inspect)
        [ -z "$part" ] && part=$1 || results=$1
        ;;
    *)
        [ -n "$part" ] || fail "there is no part $1; --help says more"
        results=$1
        ;;
    esac
    shift
done
[ -n "$part" ] || {
    usage >&2
    exit 2
}
case ${device%%:*} in
cuda | hip | cpu) ;;
*) fail "--device cuda, hip or cpu, not $device" ;;
esac

build=${build:-$here/build-gpu}
results=${results:-${OUT:-$build}}
mkdir -p "$build" "$results"
build=$(cd "$build" && pwd)
results=$(cd "$results" && pwd)
archive=$results/gpu-$part.tgz
work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-gpu.XXXXXX")
folder=$work/gpu-$part
mkdir -p "$folder/logs"
if [ -z "$list" ]; then rm -f "$archive"; fi
child='' status=1

# Whatever happens, what there is by then goes into the archive.
leave() {
    code=$?
    trap '' EXIT TERM INT HUP
    if [ -z "$list" ]; then
        [ -s "$folder/summary.md" ] ||
            printf '# gpu.sh %s ended before its first row\n\nlogs/build.log says how far the build came.\n' "$part" \
                >"$folder/summary.md"
        tar -czf "$archive.last" -C "$work" "gpu-$part" && mv "$archive.last" "$archive"
        rm -f "$archive.part"
    fi
    rm -rf "$work"
    exit "$code"
}
trap leave EXIT
passed_on() { # the child ends in its own way: it writes its page
    if [ -n "$child" ]; then
        kill -TERM "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    exit 143
}
trap passed_on TERM INT HUP

started=$(date +%s)
if [ "$make" = yes ]; then
    generator="Unix Makefiles"
    if command -v ninja >/dev/null 2>&1; then generator=Ninja; fi
    [ ! -f "$build/CMakeCache.txt" ] || generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")
    jobs=$(nproc 2>/dev/null || echo 4)
    { cmake -S "$here" -B "$build" -G "$generator" &&
        cmake --build "$build" --parallel "$jobs" --target gpu_parts; } >"$folder/logs/build.log" 2>&1 &
    child=$!
    wait "$child" || {
        tail -n 40 "$folder/logs/build.log"
        fail "the build failed"
    }
    child=''
    echo "built in $(($(date +%s) - started)) s"
fi
command -v python3 >/dev/null 2>&1 || fail "python3 is needed"

# What the build took is the part's time too.
left=$(python3 -c 'import sys; print(max(0.02, float(sys.argv[1]) - float(sys.argv[2]) / 60))' \
    "$minutes" "$(($(date +%s) - started))") || fail "--minutes wants a number, not $minutes"
# shellcheck disable=SC2086
python3 -B "$here/tests/gpu/part.py" "$part" "$archive" --device "$device" --build "$build" --work "$work" \
    --only "$only" --rounds "$rounds" --minutes "$left" --wheels "$wheels" $tiny $list &
child=$!
status=0
wait "$child" || status=$?
child=''
exit "$status"
