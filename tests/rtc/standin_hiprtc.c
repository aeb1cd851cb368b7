/* standin_hiprtc.c: takes the place of hipRTC and of the library that it is built on, comgr, of a
 * version that is not here: COMGR_MAJOR and COMGR_MINOR. Its code says the ABI's version,
 * OBJECT_ABI, and the options that it was given, one a line; its disassembly is the number of the
 * action that was asked for. It is loaded under comgr's name too, the SONAME. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- hipRTC ---- */

static const char head[] = {'\177', 'E', 'L', 'F', '2', '1', '1', '-', OBJECT_ABI, '\n', 0};
static char code[4096];

int hiprtcVersion(int *major, int *minor);
int hiprtcVersion(int *major, int *minor) {
    *major = 9; /* as each version does */
    *minor = 0;
    return 0;
}

const char *hiprtcGetErrorString(int result);
const char *hiprtcGetErrorString(int result) {
    (void)result;
    return "an error";
}

int hiprtcCreateProgram(void **program, const char *source, const char *name, int count,
                        const char **headers, const char **names);
int hiprtcCreateProgram(void **program, const char *source, const char *name, int count,
                        const char **headers, const char **names) {
    (void)source, (void)name, (void)count, (void)headers, (void)names;
    strcpy(code, head);
    *program = code;
    return 0;
}

int hiprtcCompileProgram(void *program, int count, const char **options);
int hiprtcCompileProgram(void *program, int count, const char **options) {
    size_t used = strlen(program);
    for (int i = 0; i < count && used < sizeof code; i++)
        used += (size_t)snprintf(code + used, sizeof code - used, "%s\n", options[i]);
    return used >= sizeof code;
}

int hiprtcDestroyProgram(void **program);
int hiprtcDestroyProgram(void **program) {
    *program = NULL;
    return 0;
}

int hiprtcGetProgramLogSize(void *program, size_t *size);
int hiprtcGetProgramLogSize(void *program, size_t *size) {
    (void)program;
    *size = 0;
    return 0;
}

int hiprtcGetProgramLog(void *program, char *log);
int hiprtcGetProgramLog(void *program, char *log) {
    (void)program;
    *log = 0;
    return 0;
}

int hiprtcGetCodeSize(void *program, size_t *size);
int hiprtcGetCodeSize(void *program, size_t *size) {
    *size = strlen(program);
    return 0;
}

int hiprtcGetCode(void *program, char *into);
int hiprtcGetCode(void *program, char *into) {
    memcpy(into, program, strlen(program));
    return 0;
}

/* ---- comgr: one handle for all ---- */

typedef struct Handle {
    uint64_t number;
} Handle;
static char text[64];

void amd_comgr_get_version(size_t *major, size_t *minor);
void amd_comgr_get_version(size_t *major, size_t *minor) {
    *major = COMGR_MAJOR;
    *minor = COMGR_MINOR;
}

int amd_comgr_get_isa_count(size_t *count);
int amd_comgr_get_isa_count(size_t *count) {
    *count = 1;
    return 0;
}

int amd_comgr_get_isa_name(size_t index, const char **name);
int amd_comgr_get_isa_name(size_t index, const char **name) {
    *name = "amdgcn-amd-amdhsa--gfx1151";
    return index != 0;
}

int amd_comgr_create_data(int kind, Handle *data);
int amd_comgr_create_data(int kind, Handle *data) {
    data->number = (uint64_t)kind;
    return 0;
}

#define MAKES(name)          \
    int name(Handle *made);  \
    int name(Handle *made) { \
        made->number = 1;    \
        return 0;            \
    }
MAKES(amd_comgr_create_data_set)
MAKES(amd_comgr_create_action_info)

#define TAKES(name)           \
    int name(Handle handle);  \
    int name(Handle handle) { \
        (void)handle;         \
        return 0;             \
    }
TAKES(amd_comgr_release_data)
TAKES(amd_comgr_destroy_data_set)
TAKES(amd_comgr_destroy_action_info)

int amd_comgr_set_data(Handle data, size_t size, const char *bytes);
int amd_comgr_set_data(Handle data, size_t size, const char *bytes) {
    (void)data, (void)size, (void)bytes;
    return 0;
}

int amd_comgr_set_data_name(Handle data, const char *name);
int amd_comgr_set_data_name(Handle data, const char *name) {
    (void)data, (void)name;
    return 0;
}

int amd_comgr_data_set_add(Handle set, Handle data);
int amd_comgr_data_set_add(Handle set, Handle data) {
    (void)set, (void)data;
    return 0;
}

int amd_comgr_action_info_set_isa_name(Handle info, const char *name);
int amd_comgr_action_info_set_isa_name(Handle info, const char *name) {
    (void)info;
    return strcmp(name, "amdgcn-amd-amdhsa--gfx1151") != 0;
}

int amd_comgr_do_action(int action, Handle info, Handle in, Handle out);
int amd_comgr_do_action(int action, Handle info, Handle in, Handle out) {
    (void)info, (void)in, (void)out;
    snprintf(text, sizeof text, "action %d", action);
    return 0;
}

int amd_comgr_action_data_get_data(Handle set, int kind, size_t index, Handle *data);
int amd_comgr_action_data_get_data(Handle set, int kind, size_t index, Handle *data) {
    (void)set;
    data->number = (uint64_t)kind;
    return index != 0;
}

int amd_comgr_get_data(Handle data, size_t *size, char *bytes);
int amd_comgr_get_data(Handle data, size_t *size, char *bytes) {
    (void)data;
    *size = strlen(text);
    if (bytes) memcpy(bytes, text, *size);
    return 0;
}
