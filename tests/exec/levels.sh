#!/bin/sh
# A C compiler for tests: runs the command that it is given, and of the sources it names two in three without
# optimisation, which takes a third of the time. Which ones follows from their first lines, which name the step and
# the variant, so that a text has the same level in every run.
for word; do
    case $word in *.c) source=$word ;; esac
done
if [ -n "$source" ]; then
    read -r first <"$source"
    number=$(printf %s "$first" | cksum)
    [ $((${number%% *} % 3)) = 0 ] || exec "$@" -O0
fi
exec "$@"
