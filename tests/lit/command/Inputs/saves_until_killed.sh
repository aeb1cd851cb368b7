#!/bin/sh
# In charlm's place: given --save FILE it writes the file and says so, with more on stderr than a pipe holds, until it is killed.
while [ $# != 0 ]; do
    [ "$1" != --save ] || saved=$2
    shift
done
while [ "$saved" ]; do
    : > "$saved"
    printf '%070000d\n' 0 >&2
    echo saved
done
echo hash 5
