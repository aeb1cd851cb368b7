/* soak_compiled.c: programs through the compiler, for the CPU and for the emulated devices. */
#include "soak.h"

#include <stdlib.h>
#include <string.h>

const char *const soak_devices[] = {"cpu", "cuda", "hip", NULL};

static const char program_text[] =
    "step descend[r, n](inout p: f32[r, n], g: f32[r, n], out w: f32[r, n],\n"
    "                   inout count: i32 = 3, lr: f32, out total: f64) {\n"
    "    p -= lr * g\n"
    "    w = p\n"
    "    count += 1\n"
    "    total = f64(sum(p))\n"
    "}\n";

ls_status soak_load(Soak *soak, ls_context *context, ls_program **program) {
    (void)soak;
    return ls_program_load_text(context, "soak.step", program_text, sizeof program_text - 1, NULL,
                                program);
}

static void refused(Soak *soak, ls_status expected, const char *text) {
    ls_program *program = NULL;
    soak_fails(
        soak, soak->context, expected,
        ls_program_load_text(soak->context, "refused.step", text, strlen(text), NULL, &program),
        text);
}

void soak_refused_programs(Soak *soak) {
    ls_program *program = NULL;
    refused(soak, LS_ERROR_PROGRAM, "step s[n](x: f32[n], out y: f32[n]) { y = x + z }\n");
    refused(soak, LS_ERROR_PROGRAM, "step s[n](x: f32[n], out y: f32[n]) {\n    y = zz + x[\n}\n");
    refused(soak, LS_ERROR_PROGRAM, "import \"nowhere\"\n\xff");
    soak_fails(soak, soak->context, LS_ERROR_FILE,
               ls_program_load(soak->context, "/nowhere/x.step", NULL, &program),
               "/nowhere/x.step");
}

void soak_choose_libraries(const char *device) {
    if (strcmp(device, "cpu") == 0) return;
    setenv("LOCKSTEP_CUDA", EMULATED_CUDA_PATH, 0);
    setenv("LOCKSTEP_NVRTC", EMULATED_CUDA_PATH, 1);
    setenv("LOCKSTEP_HIP", EMULATED_HIP_PATH, 0);
    setenv("LOCKSTEP_HIPRTC", EMULATED_HIP_PATH, 1);
    setenv("STAND_IN_BALANCE", "on", 1);
    setenv("SIMT_WATCH", "off", 0); /* races are looked for elsewhere */
    setenv("SIMT_PAGES", "0", 0);   /* or the emulator keeps what it knew of each page of memory */
}
