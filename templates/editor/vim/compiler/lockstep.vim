" :make runs `lockstep check` on the file and fills the quickfix list.
if exists("current_compiler")
  finish
endif
let current_compiler = "lockstep"

CompilerSet makeprg=lockstep\ check\ %
CompilerSet errorformat=%f:%l:%c:\ %trror:\ %m,%f:%l:%c:\ %tarning:\ %m,%f:%l:%c:\ note:\ %m,%-G%.%#
