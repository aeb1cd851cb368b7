/* names_test.c: a program that links sealed/liblockstep.a may call its own functions as it likes,
 * also by names that files of the compiler and the runtime share among themselves. */
#include <stdio.h>
#include <string.h>

#include <lockstep/compiler.h>
#include <lockstep/lockstep.h>

int plan_build(void);
int arena_alloc(void);
int pool_run(void);
int error_set(void);
extern int type_info, drivers;

int plan_build(void) {
    return 1;
}
int arena_alloc(void) {
    return 2;
}
int pool_run(void) {
    return 3;
}
int error_set(void) {
    return 4;
}
int type_info = 5, drivers = 6;

int main(void) {
    static const char text[] = "step s[n](x: f32[n], out y: f32[n]) {\n    y = 2 * x\n}\n";
    ls_compilation *compilation = NULL;
    ls_context *context = NULL;
    const char *data = "";
    size_t size = 0;
    ls_status status = ls_compile_text("s", text, strlen(text), NULL, &compilation);
    if (status == LS_OK) status = ls_compilation_emit(compilation, 0, "c", &data, &size);
    if (status == LS_OK) status = ls_context_create("cpu", NULL, &context);
    ls_context_destroy(context);
    ls_compilation_destroy(compilation);
    printf("%s\n", ls_status_name(status));
    return status != LS_OK || plan_build() + arena_alloc() + pool_run() + error_set() != 10;
}
