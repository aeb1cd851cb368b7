/* check.c: see check.h. A batch of programs is compiled at once for each machine, in a child
 * process that a fault may end: what it was at and what it has found lies in memory shared with it.
 */
#include "check.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "batch.h"
#include "exec.h"

/* Of the memory 12 GiB are for stacks of the emulated devices: 3 blocks of 1024 threads. */
enum { SECONDS = 300, MEMORY_GB = 24, STEPS = 64 };

const char *const verdict_words[VERDICT_COUNT] = {
    "right", "refused by the compiler", "without an image", "without code", "wrong", "a crash",
    "a hang"};

/* clang-format off */
#define NUMBERS "-std=c11", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"
#define PRODUCT "-std=c11", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", \
                "-fno-unroll-loops", "-ffp-contract=off"
#define TRAPPING "-fsanitize=undefined", "-fsanitize-trap=undefined", \
                 "-fno-sanitize=float-divide-by-zero,function"
const Machine machines[] = {
    {"clang -O0", "cpu", "cpu", {"clang", "-O0", NUMBERS, "-nostdlib"}, true, 23, VARIANTS_ALL},
    {"gcc -O0", "cpu", "cpu", {"gcc", "-O0", NUMBERS}, true, 5, VARIANTS_TWO},
    {"clang -O0, trapping", "cpu", "cpu", {"clang", "-O0", NUMBERS, "-nostdlib", TRAPPING}, true, 4,
     VARIANTS_NONE},
    {"clang -O1", "cpu", "cpu", {"clang", "-O1", NUMBERS, "-nostdlib"}, true, 1, VARIANTS_NONE},
    {"clang -O3", "cpu", "cpu", {"clang", PRODUCT, "-nostdlib"}, false, 0, VARIANTS_ONE},
    {"gcc -O3", "cpu", "cpu", {"gcc", PRODUCT}, false, 0, VARIANTS_ONE},
    {"emulated CUDA", "cuda", "sm_90", {NULL}, false, 0, VARIANTS_ALL},
    {"emulated HIP, waves of 64", "hip", "gfx90a", {NULL}, false, 0, VARIANTS_ALL},
};
/* clang-format on */
const size_t machine_count = sizeof machines / sizeof *machines;

size_t light_machine(uint64_t batch) {
    unsigned turns = 0, turn;
    for (size_t i = 0; i < machine_count; i++) turns += machines[i].turns;
    turn = (unsigned)(batch * 13 % turns); /* no long runs of the same */
    for (size_t i = 0;; i++) {
        if (turn < machines[i].turns) return i;
        turn -= machines[i].turns;
    }
}

void *must_allocate(size_t bytes) {
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (memory) return memory;
    fprintf(stderr, "differential: out of memory (%zu bytes)\n", bytes);
    exit(3);
}

bool runner_check(Runner *runner, ls_context *context, ls_status status, const char *what) {
    (void)runner;
    if (status == LS_OK) return true;
    printf("  %s: %s: %s\n", what, ls_status_name(status), ls_error_message(context));
    return false;
}

void runner_count_variant(Runner *runner, ls_step *step) {
    (void)runner, (void)step;
}

const ls_compile_options exec_options = {.import_path_count = 0};

/* ---- in the child ---- */

typedef struct Shared {
    size_t at, machine; /* what the child is at */
    struct {
        Verdict verdict;
        size_t machine;
        Cost cost;
    } found[];
} Shared;

typedef struct Job {
    Program program;
    Directives directives;
    ls_compilation *compilation;
    const ls_image *images[STEPS];
    size_t step_count;
    bool costed;
    bool done; /* nothing more to find out */
} Job;

typedef struct Child {
    const Case *cases;
    size_t count;
    Job *jobs;
    Shared *shared;
    Runner runners[3];
} Child;

static void find(Child *child, size_t i, Verdict verdict, size_t machine) {
    child->shared->found[i].verdict = verdict;
    child->shared->found[i].machine = machine;
    child->jobs[i].done = true;
    printf("%s on %s: %s\n", child->cases[i].name, machines[machine].name, verdict_words[verdict]);
}

/* Contexts of a machine's device, opened when first asked for. */
static Runner *runner_of(Child *child, const char *device) {
    static const char *const counts[CONTEXTS] = {"1", "2", "5"};
    Runner *runner = child->runners;
    while (runner->device && strcmp(runner->device, device) != 0) runner++;
    if (runner->device) return runner;
    runner->device = device;
    runner->seed = 1;
    runner->context_count = strcmp(device, "cpu") == 0 ? CONTEXTS : 1;
    for (size_t c = 0; c < runner->context_count; c++) {
        runner->threads[c] = counts[c];
        setenv("LOCKSTEP_THREADS", counts[c], 1);
        if (ls_context_create(device, NULL, &runner->contexts[c]) == LS_OK) continue;
        fprintf(stderr, "differential: cannot open %s: %s\n", device, ls_error_message(NULL));
        exit(3);
    }
    return runner;
}

static void compile(Child *child, size_t i, size_t light) {
    Job *job = &child->jobs[i];
    const Case *one = &child->cases[i];
    snprintf(job->program.name, sizeof job->program.name, "%s", one->name);
    job->program.text = one->text;
    child->shared->at = i;
    child->shared->machine = light;
    alarm(SECONDS);
    cost_begin();
    const ls_status status =
        ls_compile_text(one->name, one->text, strlen(one->text), &exec_options, &job->compilation);
    child->shared->found[i].cost = (Cost){0}; /* of an attempt that ended before */
    cost_end(&child->shared->found[i].cost);
    if (status != LS_OK || !directives_read(one->text, &job->directives)) {
        printf("%s", ls_compilation_message(job->compilation));
        find(child, i, VERDICT_REFUSED, light);
        return;
    }
    job->step_count = ls_compilation_step_count(job->compilation);
    if (job->step_count > STEPS) job->step_count = STEPS;
}

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    return x ^ x >> 29;
}

/* Of the image's variants some, by the case's name. */
static uint32_t choose(const Case *one, uint32_t count, Variants variants) {
    uint64_t state = 1469598103934665603u;
    for (const char *c = one->name; *c; c++) state = mix(state ^ (uint64_t)(uint8_t)*c);
    if (variants == VARIANTS_ALL) return UINT32_MAX;
    const uint32_t first = 1u << state % count;
    if (variants == VARIANTS_ONE || count == 1) return first;
    return first | 1u << (state % count + 1 + (state >> 32) % (count - 1)) % count;
}

/* The image of a case's step; of the first machine's, what it costs. */
static bool make_image(Child *child, size_t i, size_t step, size_t machine) {
    Job *job = &child->jobs[i];
    const ls_image **image = &job->images[step];
    cost_begin();
    const ls_status status =
        ls_compilation_image(job->compilation, step, machines[machine].target, image);
    if (!job->costed) cost_end(&child->shared->found[i].cost);
    return status == LS_OK;
}

/* The images of a case's steps, and their copies in the batch. */
static bool add_case(Child *child, Batch *batch, size_t i, size_t machine, Variants variants) {
    Job *job = &child->jobs[i];
    child->shared->at = i;
    alarm(SECONDS);
    for (size_t s = 0; s < job->step_count; s++) {
        if (!make_image(child, i, s, machine)) {
            printf("%s\n", ls_compilation_message(job->compilation));
            find(child, i, VERDICT_NO_IMAGE, machine);
            return false;
        }
        const ls_image *image = job->images[s];
        job->images[s] =
            batch_add(batch, image, choose(&child->cases[i], image->variant_count, variants),
                      i % 2 == 0, child->cases[i].broken);
    }
    job->costed = true;
    return true;
}

static void run_case(Child *child, size_t i, size_t machine) {
    Job *job = &child->jobs[i];
    Runner *runner = runner_of(child, machines[machine].device);
    ls_program *loaded[CONTEXTS] = {NULL};
    bool ok = true;
    child->shared->at = i;
    alarm(SECONDS);
    for (size_t c = 0; ok && c < runner->context_count; c++)
        ok = runner_check(runner, runner->contexts[c],
                          ls_program_from_images(runner->contexts[c], job->images, job->step_count,
                                                 NULL, NULL, NULL, &loaded[c]),
                          "ls_program_from_images");
    if (ok) ok = run_loaded(runner, &job->program, &job->directives, job->compilation, loaded);
    for (size_t c = 0; c < runner->context_count; c++)
        if (loaded[c]) ls_program_destroy(loaded[c]);
    if (!ok) find(child, i, VERDICT_WRONG, machine);
}

/* Cases by their numbers, on one machine. What does not compile together is halved. */
static void run_machine(Child *child, const size_t *numbers, size_t count, size_t machine,
                        Variants variants) {
    size_t *kept = must_allocate((count + 1) * sizeof *kept), kept_count = 0;
    static char message[4000];
    Batch *batch = batch_open(machines[machine].target, machines[machine].called);
    child->shared->machine = machine;
    for (size_t i = 0; i < count; i++)
        if (!child->jobs[numbers[i]].done && add_case(child, batch, numbers[i], machine, variants))
            kept[kept_count++] = numbers[i];
    alarm(4 * SECONDS);
    if (kept_count == 0) {
    } else if (batch_build(batch, machines[machine].compiler, message, sizeof message)) {
        for (size_t i = 0; i < kept_count; i++) run_case(child, kept[i], machine);
    } else if (kept_count == 1) {
        printf("%s\n", message);
        find(child, kept[0], VERDICT_NO_CODE, machine);
    } else {
        run_machine(child, kept, kept_count / 2, machine, variants);
        run_machine(child, kept + kept_count / 2, kept_count - kept_count / 2, machine, variants);
    }
    batch_close(batch);
    free(kept);
}

static void run_child(Child *child, size_t light, bool alone) {
    size_t *numbers = must_allocate((child->count + 1) * sizeof *numbers), count = 0;
    size_t *chosen = must_allocate((child->count + 1) * sizeof *chosen);
    for (size_t i = 0; i < child->count; i++) {
        if (child->shared->found[i].verdict != VERDICT_RIGHT)
            child->jobs[i].done = true;
        else
            compile(child, i, light);
        if (alone || !child->cases[i].full) numbers[count++] = i;
    }
    run_machine(child, numbers, count, light, alone ? VARIANTS_ALL : VARIANTS_TWO);
    count = 0;
    for (size_t i = 0; i < child->count && !alone; i++)
        if (child->cases[i].full) numbers[count++] = i;
    for (size_t machine = 0; count && machine < machine_count; machine++) {
        const Variants variants = machines[machine].variants;
        size_t some = 0;
        for (size_t i = 0; i < count; i++)
            if (variants > VARIANTS_ONE || (child->cases[numbers[i]].turn + machine) % 4 == 0)
                chosen[some++] = numbers[i];
        if (variants != VARIANTS_NONE) run_machine(child, chosen, some, machine, variants);
    }
    free(chosen);
    free(numbers);
}

/* ---- in the parent ---- */

/* true: it came to its end. */
static bool spawn(Case *cases, size_t count, size_t light, bool alone, Shared *shared,
                  const char *log) {
    fflush(stdout);
    const pid_t process = fork();
    if (process == 0) {
        const int file = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        const struct rlimit limit = {(rlim_t)MEMORY_GB << 30, (rlim_t)MEMORY_GB << 30};
        const struct rlimit no_core = {0, 0};
        if (file < 0 || dup2(file, 1) < 0 || dup2(file, 2) < 0) _exit(4);
#ifndef __SANITIZE_ADDRESS__ /* which reserves terabytes */
        setrlimit(RLIMIT_AS, &limit);
#else
        (void)limit;
#endif
        setrlimit(RLIMIT_CORE, &no_core);
        Child child = {.cases = cases, .count = count, .shared = shared};
        child.jobs = must_allocate((count + 1) * sizeof *child.jobs);
        run_child(&child, light, alone);
        fflush(stdout);
        _exit(0);
    }
    int status = -1;
    if (process < 0 || waitpid(process, &status, 0) != process) {
        perror("differential: cannot start a process");
        exit(3);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 4) exit(3);
    shared->found[shared->at].verdict =
        WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? VERDICT_HANG : VERDICT_CRASH;
    shared->found[shared->at].machine = shared->machine;
    FILE *file = fopen(log, "a");
    if (file)
        fprintf(file, "%s on %s: %s (status %d)\n", cases[shared->at].name,
                machines[shared->machine].name, verdict_words[shared->found[shared->at].verdict],
                status);
    if (file) fclose(file);
    return false;
}

static void check(Case *cases, size_t count, size_t light, bool alone, const char *log) {
    const size_t size = sizeof(Shared) + count * sizeof *((Shared *)0)->found;
    Shared *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("differential: no memory to share");
        exit(3);
    }
    for (size_t tries = 0; tries <= count; tries++)
        if (spawn(cases, count, light, alone, shared, log)) break;
    for (size_t i = 0; i < count; i++) {
        cases[i].verdict = shared->found[i].verdict;
        cases[i].machine = shared->found[i].machine;
        cases[i].cost = shared->found[i].cost;
    }
    munmap(shared, size);
}

void check_cases(Case *cases, size_t count, size_t light, const char *log) {
    check(cases, count, light, false, log);
}

Verdict check_text(const Case *one, const char *text, size_t machine, const char *log) {
    Case copy = *one;
    copy.text = (char *)(uintptr_t)text;
    check(&copy, 1, machine, true, log);
    return copy.verdict;
}
