# hostile_output.sh LOCKSTEP FOLDER: results and messages where the usual places to write are closed,
# full, too small, or no files.
lockstep=$1 folder=$2
rm -rf $folder; mkdir $folder; cd $folder || exit 1
printf 'step s[n](x: f32[n], out y: f32[n]) {\n    y = x + 1\n}\n' >good.step
run="timeout 60 $lockstep run --device cpu good.step"
$run 'x=ones(3)' >/dev/null 2>&1 # compiled

echo '# closed'
silent=0
for command in 'check good.step' 'explain good.step' 'emit good.step' cache devices 'run good.step x=ones(3)' \
    '--version' 'build good.step --targets cpu -o built'; do
    timeout 60 $lockstep $command 2>/dev/null >&- && echo "$command: its results are lost, silently"
    timeout 60 $lockstep $command 2>/dev/null >/dev/full && echo "$command: full, silently"
    timeout 60 $lockstep $command >/dev/null 2>&- || echo "$command: fails without stderr"
    silent=$((silent + 1))
done
echo $silent commands
$run 'x=ones(3)' -o y=whole.npy
for closed in '<&-' '>&-' '2>&-' '<&- >&-' '<&- 2>&-' '<&- >&- 2>&-'; do
    eval "$run 'x=ones(3)' -v --trace closed.json -o y=closed.npy $closed" >/dev/null 2>&1
    cmp whole.npy closed.npy && python3 -m json.tool closed.json >/dev/null || echo "with $closed"
    rm -f closed.npy closed.json
done
timeout 60 $lockstep check - <&-

echo '# larger than files may be'
(
    ulimit -f 64
    $run 'x=ones(100K)' -o y=large.npy
    echo status $?
    $run 'x=ones(100K)' -o y=large.safetensors
    echo status $?
    $run 'x=ones(3)' -o y=small.npy --repeat 2000 --trace large.json
    echo status $?
    LOCKSTEP_CACHE=off $run 'x=ones(3)' # a compile wants room for its files
    echo status $?
    ulimit -f 4
    timeout 60 $lockstep build good.step --targets cpu -o large
    echo status $?
)
ls -A . large | grep -E 'large|good[.][ch]'

echo '# no files'
mkfifo pipe
ln -s traced.json link.json
echo old >traced.json
(timeout 60 cat pipe | python3 -m json.tool >/dev/null && echo a trace) &
$run 'x=ones(3)' --trace pipe -o y=none.npy
wait
test -p pipe && echo still a pipe
$run 'x=ones(3)' --trace link.json -o y=none.npy
test -L link.json && python3 -m json.tool traced.json >/dev/null && echo through a link
$run 'x=ones(3)' --trace . -o y=none.npy
echo status $?

echo '# one file, spelt in two ways'
printf 'step s[n](x: f32[n], out y: f32[n], out z: f32[n]) {\n    y = x + 1\n    z = x + 2\n}\n' >two.step
mkdir deep
ln -s twice.npy link.npy
ln -s ../twice.npy deep/link.npy
ln -s round.npy round.npy
two="timeout 60 $lockstep run --device cpu two.step x=ones(3)"
for other in ./twice.npy "$PWD/twice.npy" deep/../twice.npy link.npy deep/link.npy; do
    $two -o y=twice.npy -o z=$other >out 2>&1
    echo $? $(sed "s#$PWD#HERE#" out)
done
$two -o y=twice.npy --trace ./twice.npy
$two -o y=twice.safetensors:a -o z=./twice.safetensors:a 2>&1 | head -1
$two -o y=twice.safetensors:a -o z=./twice.safetensors:b
for name in a b; do timeout 60 $lockstep run --device cpu good.step x=twice.safetensors:$name -o y=-; done
$two -o y=deep/link.npy && test -L deep/link.npy && test -f twice.npy && echo through a link to nothing
$two -o y=round.npy
echo status $?
