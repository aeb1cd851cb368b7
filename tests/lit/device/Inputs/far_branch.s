kernel:                                 ; a branch that s_branch does not reach, as LLVM writes it
	global_store_dword v0, v1, s[0:1]
	s_cbranch_execz .LBB0_2
	s_getpc_b64 s[4:5]
.Lpost_getpc0:
	s_add_u32 s4, s4, (.LBB0_3-.Lpost_getpc0)&4294967295
	s_addc_u32 s5, s5, (.LBB0_3-.Lpost_getpc0)>>32
	s_setpc_b64 s[4:5]
.LBB0_2:
	s_waitcnt vmcnt(0)
	buffer_wbl2 sc1
	s_endpgm
.LBB0_3:
	global_atomic_add v2, v0, v1, s[2:3] sc0
	s_endpgm
