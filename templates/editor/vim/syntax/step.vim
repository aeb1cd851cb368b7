" Vim syntax of Lockstep's .step files. Copy the folders beside this one to ~/.vim, or add this tree
" to 'runtimepath'.
if exists("b:current_syntax")
  finish
endif

syn keyword stepItem import const fn step backward
syn keyword stepStatement let return when
syn match stepStatement "^\s*\zsfor\ze\s\+\h\w*\s*\%(reverse\s*\)\?{"
syn keyword stepConditional if then else
syn keyword stepOperatorWord and or not
syn keyword stepRole out inout
syn keyword stepWord of as math from reverse
syn keyword stepBoolean true false
syn keyword stepConstant inf nan pi
syn keyword stepType f64 f32 i64 i32 u64 u32 bool f16 bf16 e4m3 e5m2 i16 i8 u16 u8
syn keyword stepReduction sum mean prod min max any all count norm logsumexp argmin argmax scan
syn keyword stepReduction cumsum
syn keyword stepFunction abs sign clamp floor ceil round trunc sqrt rsqrt cbrt exp exp2 expm1 log
syn keyword stepFunction log2 log1p sin cos atan tanh erf sigmoid softplus pow fma lerp copysign
syn keyword stepFunction isnan isinf isfinite bit_and bit_or bit_xor shift_left shift_right float_bits
syn keyword stepFunction float_from_bits size index grad stop_gradient uniform normal bits bernoulli
syn keyword stepFunction shuffle
syn keyword stepFunction f16_stochastic bf16_stochastic e4m3_stochastic e5m2_stochastic

syn match stepNumber "\<\d\+\%(\.\d\+\)\?\%([eE][-+]\?\d\+\)\?\>"
syn match stepNumber "\<0[xX]\x\+\>"
syn match stepOperator "\*\*\|//\|[-+*/%<>=!|&]=\|[-+*/%<>=]"
syn match stepPrime "\h\w*'\ze("
syn region stepString start=+"+ end=+"+ oneline
syn match stepComment "#.*$" contains=stepTodo,@Spell
syn keyword stepTodo contained NOTE

hi def link stepItem Structure
hi def link stepStatement Statement
hi def link stepConditional Conditional
hi def link stepOperatorWord Operator
hi def link stepRole StorageClass
hi def link stepWord Keyword
hi def link stepBoolean Boolean
hi def link stepConstant Constant
hi def link stepType Type
hi def link stepReduction Function
hi def link stepFunction Function
hi def link stepNumber Number
hi def link stepOperator Operator
hi def link stepPrime Function
hi def link stepString String
hi def link stepComment Comment
hi def link stepTodo Todo

let b:current_syntax = "step"
