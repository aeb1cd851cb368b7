" Settings for .step files: comments, the layout of `lockstep fmt`, and :make as `lockstep check`.
if exists("b:did_ftplugin")
  finish
endif
let b:did_ftplugin = 1

setlocal commentstring=#\ %s comments=:# expandtab shiftwidth=4 softtabstop=4
compiler lockstep

let b:undo_ftplugin = "setlocal commentstring< comments< expandtab< shiftwidth< softtabstop<"
