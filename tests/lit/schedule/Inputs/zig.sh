#!/bin/sh
# In place of `zig cc`: adds the words that it is called with to the file $WORDS, and calls clang, which has another name for the processor.
shift
echo "$@" >> "$WORDS"
for word; do
    shift
    [ "${word#-mcpu=}" != "$word" ] || set -- "$@" "$word"
done
exec clang "$@"
