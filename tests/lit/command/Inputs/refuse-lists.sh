# Runs the steps of lists.step, with $1, on words that must each be refused, and shows what it says.
try() {
    echo "$ $*"
    step=$1
    shift
    "$lockstep" run --device cpu "lists.step:$step" "$@"
    echo "status $?"
}
lockstep=$1
try sgd p=model.safetensors g=turned.safetensors decay=0
try sgd p=model.safetensors g=longer.safetensors decay=0
try sgd p=model.safetensors 'g=ones(2)+ones(3)' decay=0
try sgd 'p=model.safetensors:q*' g=zeros decay=0
try sgd p=1 g=zeros decay=0
try sgd p=ones g=zeros decay=0
try sgd p=ones g=zeros decay=0 --size t=3
try sgd p=ones g=zeros decay=0 --size t=3,n=1+2
try gates x=ones --size b=1+2,h=3
try gates 'x=ones(2)+ones(3)'
try gates x=model.safetensors
try gates 'x=ones(2,8)' --size h=3
try sgd p=model.safetensors g=zeros decay=0 -o p=p.npy
try sgd p=model.safetensors g=zeros decay=0 -o p=p.safetensors:x
try sgd p=model.safetensors g=zeros decay=0 -o p=p.safetensors -o w=p.safetensors
try rows 'x=ones(2,3)+ones(4)'
try sgd 'p=ones(3)+zeros' g=zeros decay=0
try sgd p=model.safetensors g=zeros 'decay=ones(3)'
try rows x=ones --size t=9223372036854775807,r=3,c=4
try rows x=ones --size t=1048577,r=3,c=4
