/* shared.c: liblockstep_shared.so is liblockstep and liblockstep_rt as they are, for scripts to
 * load. A shared object needs one source file of its own; this one names the version it holds. */
const char *lockstep_shared_version(void);
const char *lockstep_shared_version(void) {
    return LOCKSTEP_VERSION;
}
