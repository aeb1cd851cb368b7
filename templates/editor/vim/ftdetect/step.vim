autocmd BufNewFile,BufRead *.step setfiletype step
