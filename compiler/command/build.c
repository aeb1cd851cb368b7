/* build.c: `lockstep build`: steps ahead of time, as a C header and a C file for the runtime. */
#include "files.h"
#include "command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Options {
    StringList targets;
    const char *folder, *name, *depfile, *prefix;
    bool contiguous, pack, values;
} Options;

/* C is the same for every processor. */
static bool is_processor(const char *name, size_t size) {
    static const char *const names[] = {"cpu", "cpu:aarch64", "cpu:x86-64"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0) return true;
    return false;
}

/* "cpu:x86-64-v3": machine code for a level of processors. */
static bool is_level(const char *target) {
    return strncmp(target, LS_TARGET_CPU ":", strlen(LS_TARGET_CPU) + 1) == 0;
}

/* "sm_90,cpu" as two; every entry is the caller's to free. */
static StringList split_targets(const StringList *given) {
    StringList targets = {0};
    bool by_processor = false; /* one is named with its processor, so `cpu` again is no mistake */
    for (size_t i = 0; i < given->count; i++)
        for (const char *at = given->items[i]; *at;) {
            const size_t size = strcspn(at, ",");
            const char *name = at;
            const bool processor = is_processor(at, size);
            at += size + (at[size] == ',');
            bool known = false;
            by_processor |= processor && memchr(name, ':', size);
            for (size_t k = 0; processor && by_processor && k < targets.count; k++)
                known |= is_processor(targets.items[k], strlen(targets.items[k]));
            if (known) continue;
            targets.items = memory_grow((void *)(uintptr_t)targets.items, targets.count + 1,
                                        sizeof *targets.items);
            targets.items[targets.count++] =
                copy_text(name, processor ? strcspn(name, ":,") : size);
        }
    return targets;
}

static void free_targets(StringList *targets) {
    for (size_t i = 0; i < targets->count; i++) free((void *)(uintptr_t)targets->items[i]);
    free((void *)(uintptr_t)targets->items);
}

/* "templates/std/optim.step" gives "optim". */
static char *stem_of(const char *path) {
    const char *slash = strrchr(path, '/'), *begin = slash ? slash + 1 : path;
    const char *dot = strrchr(begin, '.');
    return copy_text(begin, dot && dot > begin ? (size_t)(dot - begin) : strlen(begin));
}

/* With the folders it lies in, as far as they are not there. */
static bool make_folder(const char *path, Failure *failure) {
    char *part = copy_text(path, strlen(path));
    for (char *at = part + 1; *part && *at; at++)
        if (*at == '/') {
            *at = '\0';
            mkdir(part, 0777); /* what could not be made is missed below */
            *at = '/';
        }
    free(part);
    struct stat status;
    if (mkdir(path, 0777) == 0) return true;
    const int why = errno;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return true;
    return fail(failure, STATUS_INPUT, "cannot make the folder %s: %s", path, strerror(why));
}

static void show(void *user, size_t done, size_t total, const char *what) {
    (void)what;
    progress_show(user, done, total);
}

/* The steps requested; false when there are none. */
static bool choose_steps(const ls_compilation *compilation, const SourceName *name, size_t **steps,
                         size_t *count, Failure *failure) {
    size_t step;
    *count = name->step ? 1 : ls_compilation_own_step_count(compilation);
    *steps = memory((*count + 1) * sizeof **steps);
    for (size_t i = 0; i < *count; i++) (*steps)[i] = i;
    if (name->step || *count == 0) {
        if (!name->step && ls_compilation_step_count(compilation)) {
            fail(failure, STATUS_USAGE, "%s has no step of its own", name->path);
            fail_help(failure, "name one that it imports, as in %s:%s", name->path,
                      ls_compilation_step_name(compilation, 0));
            return false;
        }
        if (!source_choose_step(compilation, name, &step, failure)) return false;
        (*steps)[0] = step;
        *count = 1;
    }
    return true;
}

static bool write_file(const char *folder, const char *name, char kind, const char *text, bool tell,
                       Failure *failure) {
    Buffer path = {0};
    buffer_printf(&path, "%s/%s.%c", folder, name, kind);
    bool good = file_write_whole(path.data, text, strlen(text), failure);
    if (good && tell) printf("%s\n", path.data);
    buffer_free(&path);
    return good;
}

/* A path as make reads it, whatever folder it runs in. */
static void add_path(Buffer *out, const char *path) {
    char folder[4096];
    if (*path != '/' && getcwd(folder, sizeof folder)) {
        add_path(out, folder);
        buffer_printf(out, "/");
    }
    for (; *path; path++) {
        if (*path == ' ' || *path == '#' || *path == '\\') buffer_printf(out, "\\");
        if (*path == '$') buffer_printf(out, "$");
        buffer_printf(out, "%c", *path);
    }
}

/* A rule for make ends at a line's end, and that cannot be quoted. */
static bool check_path(const char *depfile, const char *path, Failure *failure) {
    if (!strpbrk(path, "\n\r")) return true;
    return fail(failure, STATUS_INPUT, "cannot write %s: a rule for make cannot name '%s'", depfile,
                path);
}

/* What would not do, known before anything is written. */
static bool check_depfile(const char *depfile, const char *folder, const char *stem,
                          const ls_compilation *compilation, Failure *failure) {
    bool good = check_path(depfile, folder, failure);
    for (const char *kind = "ch"; good && *kind; kind++) {
        Buffer file = {0};
        buffer_printf(&file, "%s/%s.%c", folder, stem, *kind);
        if (strcmp(file.data, depfile) == 0)
            good = fail(failure, STATUS_USAGE, "--depfile %s is a file that build writes itself",
                        depfile);
        buffer_free(&file);
    }
    for (size_t i = 0; good && i < ls_compilation_file_count(compilation); i++)
        good = check_path(depfile, ls_compilation_file(compilation, i), failure);
    return good;
}

/* Which files the two were made of, as a rule for make and ninja. */
static bool write_depfile(const char *depfile, const char *folder, const char *stem,
                          const ls_compilation *compilation, Failure *failure) {
    Buffer text = {0};
    for (const char *kind = "ch"; *kind; kind++) {
        Buffer file = {0};
        if (text.size) buffer_printf(&text, " ");
        buffer_printf(&file, "%s/%s.%c", folder, stem, *kind);
        add_path(&text, file.data);
        buffer_free(&file);
    }
    buffer_printf(&text, ":");
    for (size_t i = 0; i < ls_compilation_file_count(compilation); i++) {
        buffer_printf(&text, " \\\n  ");
        add_path(&text, ls_compilation_file(compilation, i));
    }
    buffer_printf(&text, "\n");
    bool good = file_write_whole(depfile, text.data, text.size, failure);
    buffer_free(&text);
    return good;
}

/* What is built, and where. */
typedef struct Build {
    const Options *options;
    ls_compilation *compilation;
    const char *folder, *stem;
    const size_t *steps;
    size_t step_count;
} Build;

/* The C files, for all targets but levels of processors. */
static bool build_files(const Build *b, const StringList *targets, Failure *failure) {
    const char *header = NULL, *code = NULL, *depfile = b->options->depfile;
    Progress progress = progress_begin("building");
    const ls_ahead_options ahead = {.name = b->stem,
                                    .steps = b->steps,
                                    .step_count = b->step_count,
                                    .targets = targets->items,
                                    .target_count = targets->count,
                                    .progress = show,
                                    .user = &progress,
                                    .contiguous = b->options->contiguous,
                                    .values = b->options->values,
                                    .prefix = b->options->prefix};
    ls_status status = ls_compilation_ahead(b->compilation, &ahead, &header, &code);
    progress_end(&progress);
    if (status != LS_OK)
        return fail(failure, exit_status(status), "%s", ls_compilation_message(b->compilation));
    return (!depfile || check_depfile(depfile, b->folder, b->stem, b->compilation, failure)) &&
           make_folder(b->folder, failure) &&
           write_file(b->folder, b->stem, 'c', code, !depfile, failure) &&
           write_file(b->folder, b->stem, 'h', header, !depfile, failure) &&
           (!depfile || write_depfile(depfile, b->folder, b->stem, b->compilation, failure));
}

/* The kernels for a level of processors, "cpu:x86-64-v3". */
static bool build_kernels(const Build *b, const char *target, Failure *failure) {
    const char *level = strchr(target, ':') + 1;
    Buffer path = {0};
    Progress progress = progress_begin("building");
    buffer_printf(&path, "%s/cpu-%s.kernels", b->folder, level);
    const ls_kernels_options kernels = {.level = level,
                                        .path = path.data,
                                        .steps = b->steps,
                                        .step_count = b->step_count,
                                        .packed = b->options->pack,
                                        .contiguous = b->options->contiguous,
                                        .progress = show,
                                        .user = &progress};
    bool good = make_folder(b->folder, failure);
    if (good) {
        ls_status status = ls_compilation_kernels(b->compilation, &kernels);
        good = status == LS_OK ||
               fail(failure, exit_status(status), "%s", ls_compilation_message(b->compilation));
    }
    progress_end(&progress);
    if (good) printf("%s\n", path.data);
    buffer_free(&path);
    return good;
}

static bool build_all(const Build *b, const StringList *targets, Failure *failure) {
    StringList files = {0};
    bool good = true;
    for (size_t i = 0; i < targets->count; i++)
        if (!is_level(targets->items[i])) list_add(&files, targets->items[i]);
    if (!files.count && b->options->depfile)
        good = fail(failure, STATUS_USAGE,
                    "--depfile is of the C file, and the targets are levels of processors alone");
    if (good && !files.count && (b->options->prefix || b->options->values))
        good = fail(failure, STATUS_USAGE,
                    "--%s is of the C file, and the targets are levels of processors alone",
                    b->options->prefix ? "prefix" : "values");
    if (files.count == targets->count && b->options->pack)
        good = fail(failure, STATUS_USAGE,
                    "--pack is for levels of processors, as in --targets cpu:x86-64-v3");
    if (good && files.count) good = build_files(b, &files, failure);
    for (size_t i = 0; good && i < targets->count; i++)
        if (is_level(targets->items[i])) good = build_kernels(b, targets->items[i], failure);
    free((void *)(uintptr_t)files.items);
    return good;
}

static bool build(const Invocation *invocation, ls_compilation *compilation,
                  const SourceName *source, Failure *failure) {
    const Options *options = invocation->options;
    char *stem = options->name  ? copy_text(options->name, strlen(options->name))
                 : source->step ? copy_text(source->step, strlen(source->step))
                                : stem_of(source->path);
    StringList targets = split_targets(&options->targets);
    size_t *steps = NULL, count;
    bool good = choose_steps(compilation, source, &steps, &count, failure);
    if (good && strspn(stem, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") !=
                    strlen(stem))
        good = fail(failure, STATUS_USAGE,
                    "'%s' is no name for files of C: take --name with letters, digits and _", stem);
    const Build all = {options, compilation, options->folder ? options->folder : ".",
                       stem,    steps,       count};
    good = good && build_all(&all, &targets, failure);
    free(steps);
    free(stem);
    free_targets(&targets);
    return good;
}

static int run(const Invocation *invocation) {
    const Options *options = invocation->options;
    Failure failure = {0};
    ls_compilation *compilation;
    if (invocation->argument_count != 1)
        return usage_error(invocation->command, "build takes one file, %zu given",
                           invocation->argument_count);
    if (!options->targets.count)
        return usage_error(invocation->command,
                           "say what to build for, as in --targets sm_80,sm_90,gfx90a,cpu");
    SourceName name = source_split(invocation->arguments[0]);
    int status = source_compile(invocation, name.path, &compilation);
    if (status == STATUS_DONE) {
        if (!build(invocation, compilation, &name, &failure)) status = report(&failure);
        ls_compilation_destroy(compilation);
    }
    free(name.path);
    return status;
}

static const Option build_options[] = {
    {'t', "targets", "T,...", OPTION_LIST, offsetof(Options, targets),
     "cpu (C, the same for cpu:x86-64 and cpu:aarch64), sm_NN (machine code),\n"
     "compute_NN (PTX, for that GPU and newer), gfxNNN; the runtime takes the one\n"
     "that suits the device best. cpu:x86-64-v3 and other levels: see below"},
    {'o', "output", "DIR", OPTION_TEXT, offsetof(Options, folder),
     "the folder for both files, made when it is not there (default: .)"},
    {0, "name", "NAME", OPTION_TEXT, offsetof(Options, name),
     "of the files: NAME.h and NAME.c (default: the file's, or the step's)"},
    {0, "prefix", "NAME", OPTION_TEXT, offsetof(Options, prefix),
     "begins what functions and structures are called: net_ for net_STEP_bind"},
    {0, "values", NULL, OPTION_FLAG, offsetof(Options, values),
     "structures hold the values of rank-0 parameters that are only read, as in\n"
     ".lr = 1e-4f, instead of pointers; begin with STEP_defaults where it is there"},
    {0, "contiguous", NULL, OPTION_FLAG, offsetof(Options, contiguous),
     "no kernels for arrays with gaps between elements or off a boundary of\n"
     "16 bytes, which are refused then: 15 to 60 % less text to compile;\n"
     "for levels of processors: none for arrays whose rows have gaps"},
    {0, "pack", NULL, OPTION_FLAG, offsetof(Options, pack),
     "for levels of processors: pack the file's kernels, to a quarter of the bytes;\n"
     "loading one takes some milliseconds more"},
    {0, "depfile", "FILE", OPTION_TEXT, offsetof(Options, depfile),
     "write which files they were made of, as a rule for make or ninja,\n"
     "and print nothing"},
};

const Command command_build = {
    .name = "build",
    .summary = "compiles steps ahead of time into a C header and a C file",
    .arguments = "FILE[:STEP] --targets T,... [-o DIR]",
    .details =
        "The files hold the kernels for every target and need the runtime only\n"
        "(liblockstep_rt), no compiler. The header has a structure of arguments for\n"
        "each step, and STEP_bind and STEP_launch. Results have the bits that the same\n"
        "step has when it is compiled at run time. Prints the names of the files.\n\n"
        "For a level of processors, cpu:baseline or cpu:x86-64-v2 to -v4, the machine code\n"
        "is added to cpu-LEVEL.kernels in the folder. Programs that compile at run time take\n"
        "it from there where LOCKSTEP_KERNELS names the folder, without a C compiler.",
    .examples = "  lockstep build adamw.step -o gen --targets sm_90,compute_90,cpu\n"
                "  cc -O3 -march=native -fno-math-errno -fno-trapping-math -c gen/adamw.c\n"
                "  lockstep build std/norms -o kernels --targets cpu:x86-64-v3,cpu:x86-64-v4",
    .options = build_options,
    .option_count = COUNT(build_options),
    .options_size = sizeof(Options),
    .compiles = true,
    .run = run,
};
