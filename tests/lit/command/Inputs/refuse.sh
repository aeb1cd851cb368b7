# Runs the command given as $1 on lines that must each be refused, and shows what it says.
try() {
    echo "$ $*"
    "$lockstep" run --device cpu "$@"
    echo "status $?"
}
lockstep=$1
try two.step
try two.step:second
try two.step:second 'x=ones(2,3)' 'w=ones(4)' flag=true
try two.step:second 'x=ones(6)' 'w=ones(3)' flag=true
try scale.step x=1
try scale.step conut=3
try scale.step 'x=ones(3)' 'x=ones(3)'
try scale.step 'x=ones(3)' 'y=ones(3)'
try scale.step 'ones(3)'
try scale.step 'x=ones(3)' count=1.5
try scale.step 'x=ones(3)' count=2147483648
try scale.step 'x=one(3)'
try scale.step 'x=ones(2)+ones(3)'
try scale.step x=none.npy
try scale.step x=zeros
try scale.step 'x=ones(3)' --size n=4
try scale.step 'x=ones(3)' --size m=4
try scale.step 'x=ones(3)' -o f=-
try scale.step 'x=ones(3)' -o x=x.txt
try scale.step 'x=ones(3)' -o x=x.npy -o total=x.npy
try scale.step 'x=ones(3)' -o x=x.safetensors:a -o y=x.safetensors:a
try wrong.step 'x=ones(3)'
try two.step:first x=scale.step
try two.step:first 'x=iota(99999999,99999999,99999999)'
try scale.step 'x=ones(3)' -o x=x.safetensors:__metadata__
try scale.step 'x=ones(3)' -o x=x.npy --trace x.npy
try scale.step 'x=ones(3)' --trace ''
try scale.step 'x=ones(3)+'
