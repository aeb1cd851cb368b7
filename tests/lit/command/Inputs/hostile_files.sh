# hostile_files.sh LOCKSTEP FOLDER: every command on what is no source file.
lockstep=$1 folder=$2
rm -rf $folder; mkdir $folder; cd $folder || exit 1
ulimit -v 2000000
mkfifo pipe.step pipe.npy pipe.safetensors
ln -s loop.step loop.step
ln -s /dev/zero zero.npy
printf 'step s[n](x: f32[n], out y: f32[n]) {\n    y = x + 1\n}\n' >good.step
truncate -s 5G large.step
refused=0
for command in check fmt explain run bench tune emit 'build --targets cpu'; do
    for file in /dev/zero pipe.step $folder loop.step large.step; do
        text=$(timeout 20 $lockstep $command $file 2>&1 </dev/null)
        status=$?
        case "$status $text" in
        [1-3]' lockstep: error: cannot '*) refused=$((refused + 1)) ;;
        *) echo "$command $file: $status $text" ;;
        esac
    done
done
echo $refused refused
$lockstep check <(cat good.step)
cat good.step | $lockstep check - && echo from a pipe
$lockstep check /dev/stdin <good.step && echo from a redirection
for command in check fmt emit; do timeout 20 $lockstep $command - </dev/zero; done
for file in pipe.npy zero.npy pipe.safetensors; do timeout 20 $lockstep run good.step x=$file 2>&1 | head -1; done

# names that tell a terminal what to do
header="{'descr': '<$(printf '\033[31m')', 'fortran_order': False, 'shape': (3,)}"
printf "\\x93NUMPY\\x01\\x00\\x$(printf %x ${#header})\\x00%s" "$header" >escape.npy
header='{"a\u001b[31m":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b\u009b\u007fx":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'
printf "\\x$(printf %x ${#header})\\0\\0\\0\\0\\0\\0\\0%s\\0\\0\\0\\0\\0\\0\\0\\0" "$header" >escape.safetensors
printf 'step t[t, n of t](x: f32[t, n], out y: f32[t, n]) {\n    y = x + 1\n}\n' >list.step
$lockstep run good.step x=escape.npy 2>&1 | head -1
$lockstep run good.step x=escape.safetensors 2>&1
$lockstep run --device cpu list.step x=escape.safetensors
