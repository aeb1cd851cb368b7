#!/bin/sh
# On a machine with a GPU: builds, runs the execution tests on the device, compares every bit with the
# interpreter, then measures. Needs a C compiler, CMake with make, the CUDA toolkit (for NVRTC) and, for
# the measurements, python3; PyTorch is a peer where it is importable. No network, no lit, no cmocka.
#
#   sh tests/gpu.sh [--device cuda|hip|cpu] [--part tests|bench|all] [--build DIR] [--quick] [RESULTS]
#
# RESULTS (default build-gpu/results) receives exec-*.json, bench.json, result.json, the table and the chart
# (table.md, chart.svg) and the logs. The exit status is 0 when every bit was right.
set -eu
cd "$(dirname "$0")/.."

device=cuda part=all build=build-gpu results="" quick=""
usage() {
    echo "usage: sh tests/gpu.sh [--device cuda|hip|cpu] [--part tests|bench|all] [--build DIR] [--quick]" \
        "[RESULTS]" >&2
    exit 2
}
while [ $# -gt 0 ]; do
    case $1 in
    --device) device=$2; shift ;;
    --part) part=$2; shift ;;
    --build) build=$2; shift ;;
    --quick) quick=--quick ;;
    -*) usage ;;
    *) results=$1 ;;
    esac
    shift
done
case $device/$part in
cuda/tests | cuda/bench | cuda/all | hip/tests | hip/bench | hip/all | cpu/tests | cpu/bench | cpu/all) ;;
*) usage ;;
esac
results=${results:-$build/results}
mkdir -p "$build" "$results"
say() { printf '\n== %s\n' "$*"; }
jobs=$(nproc 2>/dev/null || echo 2)

say "Building into $build"
cmake -S . -B "$build" -G "Unix Makefiles" >"$results/build.log" 2>&1 &&
    cmake --build "$build" --parallel "$jobs" \
        --target lockstep_command exec_runner linreg charlm >>"$results/build.log" 2>&1 ||
    { tail -n 40 "$results/build.log"; exit 1; }
if ! cmake --build "$build" --parallel "$jobs" --target bench_parts >>"$results/build.log" 2>&1; then
    echo "the parts of the benchmark did not build: see $results/build.log"
fi

# NVRTC lies in the toolkit; the loader may not know where.
if [ -z "${LOCKSTEP_NVRTC:-}" ]; then
    for file in /usr/local/cuda*/lib64/libnvrtc.so /usr/local/cuda*/targets/*/lib/libnvrtc.so; do
        [ -e "$file" ] && LOCKSTEP_NVRTC=$file && export LOCKSTEP_NVRTC && break
    done
fi
LOCKSTEP_CACHE_DIR=$(cd "$results" && pwd)/cache
export LOCKSTEP_CACHE_DIR

say "Devices"
"$build/lockstep" devices | tee "$results/devices.txt" || true

status=0
if [ "$part" != bench ]; then
    say "Execution tests on $device, every bit against the interpreter"
    # Compiling takes most of the time, so several runners share the programs and the device.
    shards=12
    [ "$jobs" -ge "$shards" ] || shards=$jobs
    rm -f "$results"/exec-*
    shard=0 runners=""
    while [ "$shard" -lt "$shards" ]; do
        # shellcheck disable=SC2086
        "$build/tests/exec/exec_runner" --device "$device" $quick --shard "$shard/$shards" \
            --json "$results/exec-$shard.json" >"$results/exec-$shard.log" 2>&1 &
        runners="$runners $!"
        shard=$((shard + 1))
    done
    for runner in $runners; do
        wait "$runner" || status=1
    done
    cat "$results"/exec-*.log | grep -E '^(FAILED|  FAILED|  MISMATCH|exec_runner:)' | head -n 40 || true
    tail -q -n 1 "$results"/exec-*.log

    say "A model in training on $device"
    "$build/examples/linreg/linreg" --device "$device" --steps 2000 >"$results/linreg.log" 2>&1 || status=1
    tail -n 3 "$results/linreg.log"
fi

say "A GPT in training on $device, with the products of the vendor's BLAS"
"$build/examples/charlm/charlm" --device "$device" --curve "$results/charlm.svg" --sample 200 \
    >"$results/charlm.log" 2>&1 || echo "it did not finish:"
tail -n 12 "$results/charlm.log"

say "Measurements"
if [ "$part" = tests ]; then
    echo "not asked for"
elif ! command -v python3 >/dev/null 2>&1; then
    echo "no python3: not measured"
elif [ "$device" = hip ]; then
    echo "no peers to measure against on $device: not measured"
else
    PYTHONDONTWRITEBYTECODE=1 python3 tests/bench/gpu.py --build "$build" --device "$device" --json "$results/bench.json" ||
        { echo "measuring failed"; status=1; }
    python3 tests/bench/report.py "$results/bench.json" --svg "$results/chart.svg" >"$results/table.md" || true
fi

{
    printf '{"device": "%s", "status": %d, "exec": [' "$device" "$status"
    comma=""
    for file in "$results"/exec-*.json; do
        [ -s "$file" ] && printf '%s' "$comma" && cat "$file" && comma=", "
    done
    printf ']'
    [ -s "$results/bench.json" ] && printf ', "bench": ' && cat "$results/bench.json"
    printf '}\n'
} >"$results/result.json"
say "Results in $results/result.json; status $status"
exit "$status"
