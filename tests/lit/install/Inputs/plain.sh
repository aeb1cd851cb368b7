#!/bin/sh
# plain.sh CONSUMER OUT PREFIX: the consumer's program with cc and pkg-config alone, three ways.
set -e
mkdir -p "$2"
# what pkg-config prints may have spaces, escaped for a shell
eval "$(pkg-config --variable=command lockstep_rt) build $1/decay.step --targets cpu -o $2" >/dev/null
sources="$1/main.c $2/decay.c"
flags="-O3 -march=native -fno-math-errno -fno-trapping-math -I$2"

echo shared
eval "cc -DWITH_COMPILER $flags $sources $(pkg-config --cflags --libs lockstep) -o $2/shared"
env LD_LIBRARY_PATH="$3/lib" "$2/shared"

echo archives
eval "cc -DWITH_COMPILER $flags $sources -Wl,-Bstatic $(pkg-config --cflags --libs lockstep) \
    -Wl,-Bdynamic -lpthread -ldl -lm -o $2/archives"
"$2/archives"

echo static
eval "cc -static $flags $sources $(pkg-config --static --cflags --libs lockstep_rt) -o $2/static" 2>"$2/log" ||
    { cat "$2/log"; exit 1; }
"$2/static"
