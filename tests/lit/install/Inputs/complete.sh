# complete.sh COMPLETION FOLDER COMMAND: asks bash's completion as readline would, with the words cut at : and =.
. "$1"
program=$3
lockstep() { "$program" "$@"; }
cd "$2" || exit 1

try() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _lockstep
    echo "$* -> ${COMPREPLY[*]}"
}
try lockstep ''
try lockstep e
try lockstep help r
try lockstep --device cpu ru
try lockstep run --re
try lockstep run --device c
try lockstep run --device = c
try lockstep build x.step --targets sm_90,gfx94
try lockstep build x.step -o adam
try lockstep explain std/sch
try lockstep explain std/optim : adamw_b
try lockstep explain adamw/ad
try lockstep explain adamw/adamw.step :
try lockstep run adamw/adamw.step p = adamw/ad
try lockstep run adamw/adamw.step -o p = adamw/ad
try lockstep run adamw/adamw.step ''
try lockstep run std/norms : rms_norm_forward ga
try lockstep run --repeat 3 adamw/adamw.step p = zeros d
try lockstep run adamw/adamw.step -o ''
try lockstep run nowhere.step ''
try lockstep run x.step --repeat ''
try lockstep cache ''
try lockstep check -- -
