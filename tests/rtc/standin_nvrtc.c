/* standin_nvrtc.c: takes the place of NVRTC where a toolchain must misbehave, which the real one
 * does not do on request. What it does is the source's first word; its "PTX" tells about the
 * process it runs in. */
#include <dirent.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int nvrtcVersion(int *major, int *minor);
const char *nvrtcGetErrorString(int result);
int nvrtcCreateProgram(void **program, const char *source, const char *name, int count,
                       const char *const *headers, const char *const *names);
/* Hangs, as the child it starts; their numbers lie beside the helper's own folder. */
static void start_child(void) {
    char path[4096];
    const char *folder = getenv("TMPDIR");
    pid_t child = fork();
    while (child == 0) pause();
    snprintf(path, sizeof path, "%s/../pids", folder ? folder : "/tmp");
    FILE *file = fopen(path, "w");
    if (!file) return;
    fprintf(file, "%ld %ld", (long)getpid(), (long)child);
    fclose(file);
    for (;;) pause();
}

int nvrtcCompileProgram(void *program, int count, const char *const *options);
int nvrtcDestroyProgram(void **program);
int nvrtcGetProgramLogSize(void *program, size_t *size);
int nvrtcGetProgramLog(void *program, char *log);
int nvrtcGetPTXSize(void *program, size_t *size);
int nvrtcGetPTX(void *program, char *code);
int nvrtcGetCUBINSize(void *program, size_t *size);
int nvrtcGetCUBIN(void *program, char *code);
int nvrtcGetNumSupportedArchs(int *count);
int nvrtcGetSupportedArchs(int *numbers);

enum { LARGE = 3000000 };
typedef struct Program {
    const char *source;
    char text[256];
    size_t size;
} Program;

int nvrtcVersion(int *major, int *minor) {
    *major = 12;
    *minor = 34;
    return 0;
}

/* It does not say what it knows: then it is asked for anything. */
int nvrtcGetNumSupportedArchs(int *count) {
    (void)count;
    return 1;
}

int nvrtcGetSupportedArchs(int *numbers) {
    (void)numbers;
    return 1;
}

const char *nvrtcGetErrorString(int result) {
    return result ? "STANDIN_ERROR" : "done";
}

int nvrtcCreateProgram(void **program, const char *source, const char *name, int count,
                       const char *const *headers, const char *const *names) {
    (void)name, (void)count, (void)headers, (void)names;
    Program *made = calloc(1, sizeof *made);
    if (!made) return 1;
    made->source = source;
    *program = made;
    return 0;
}

static int open_files(void) {
    int count = -1; /* the directory stream's own */
    DIR *stream = opendir("/proc/self/fd");
    for (struct dirent *entry; stream && (entry = readdir(stream));)
        count += entry->d_name[0] != '.';
    if (stream) closedir(stream);
    return count;
}

static int blocked_signals(void) {
    sigset_t set;
    int count = 0;
    sigprocmask(SIG_BLOCK, NULL, &set);
    for (int i = 1; i < 32; i++) count += sigismember(&set, i) == 1;
    return count;
}

int nvrtcCompileProgram(void *program, int count, const char *const *options) {
    Program *p = program;
    (void)count, (void)options;
    if (strncmp(p->source, "crash", 5) == 0) {
        fputs("last words of the toolchain\n", stderr);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (strncmp(p->source, "exit", 4) == 0) _exit(7);
    if (strncmp(p->source, "stop", 4) == 0) raise(SIGSTOP);
    if (strncmp(p->source, "litter", 6) == 0) {
        char path[4096];
        snprintf(path, sizeof path, "%s/litter-XXXXXX",
                 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
        if (!mkdtemp(path)) return 1;
        abort();
    }
    if (strncmp(p->source, "child", 5) == 0) start_child();
    for (volatile int i = 0; strncmp(p->source, "spin", 4) == 0;) i = !i;
    puts("noise on the standard output");
    fflush(stdout);
    snprintf(p->text, sizeof p->text, "%ld %d %d", (long)getpid(), open_files(), blocked_signals());
    p->size = strncmp(p->source, "large", 5) == 0 ? LARGE : strlen(p->text) + 1;
    return strncmp(p->source, "refuse", 6) == 0;
}

int nvrtcDestroyProgram(void **program) {
    free(*program);
    *program = NULL;
    return 0;
}

int nvrtcGetProgramLogSize(void *program, size_t *size) {
    (void)program;
    *size = sizeof "the stand-in's log";
    return 0;
}

int nvrtcGetProgramLog(void *program, char *log) {
    (void)program;
    strcpy(log, "the stand-in's log");
    return 0;
}

int nvrtcGetPTXSize(void *program, size_t *size) {
    *size = ((Program *)program)->size;
    return 0;
}

int nvrtcGetPTX(void *program, char *code) {
    Program *p = program;
    memset(code, 'x', p->size);
    if (p->size < LARGE) memcpy(code, p->text, p->size);
    return 0;
}

int nvrtcGetCUBINSize(void *program, size_t *size) {
    return nvrtcGetPTXSize(program, size);
}
int nvrtcGetCUBIN(void *program, char *code) {
    return nvrtcGetPTX(program, code);
}
