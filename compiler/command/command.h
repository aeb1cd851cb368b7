/* command.h: what the subcommands of `lockstep` share: options from tables, messages, the way from
 * a FILE[:STEP] to a compiled step on a device. Include files.h first. Each subcommand is a file
 * with one Command in it; commands.c lists them. */
#ifndef COMMAND_H
#define COMMAND_H

#include <lockstep/lockstep.h>

typedef struct StringList {
    const char **items;
    size_t count;
} StringList;
void list_add(StringList *list, const char *item);

/* options.c: one parser and one help printer from a table per command. */
typedef enum OptionKind {
    OPTION_FLAG,  /* bool */
    OPTION_TEXT,  /* const char *; the last one wins */
    OPTION_LIST,  /* StringList */
    OPTION_COUNT, /* uint64_t, at least 1 */
    OPTION_NUMBER /* double, above 0 */
} OptionKind;
typedef struct Option {
    char letter;          /* 0: none */
    const char *name;     /* without the dashes */
    const char *argument; /* what the help calls it; NULL for a flag */
    OptionKind kind;
    size_t offset; /* of its member in the command's options, or in Common */
    const char *help;
} Option;

/* Options that every command takes. */
typedef struct Common {
    const char *device, *math_text;
    StringList defines, import_paths;
    bool verbose, help, version;
    ls_math math;
} Common;

typedef struct Invocation Invocation;
typedef struct Command {
    const char *name, *summary, *arguments, *details, *examples;
    const Option *options;
    size_t option_count, options_size;
    bool compiles, device; /* whether its help shows -D and --math, and --device */
    int (*run)(const Invocation *invocation);
} Command;
struct Invocation {
    const Command *command;
    Common common;
    const void *options; /* the command's own struct */
    const char *const *arguments;
    size_t argument_count;
};
/* Takes options off `words` until the command's end (or, without a command, its first word that is
 * no option, whose number it gives). */
bool options_parse(const Command *command, const char *const *words, size_t count, Common *common,
                   void *options, StringList *arguments, size_t *used, Failure *failure);
/* The options of a command as its help shows them, those of every command last (without a command:
 * those alone); NULL behind the last. */
const Option *option_at(const Command *command, size_t index);
void options_print_help(const Command *command);
void options_print_common(void);

/* message.c: everything that is not a result goes to stderr. */
bool color_wanted(FILE *stream); /* a terminal, and no NO_COLOR */
/* Without control characters but for the line's end and the tab: names come from files, and are not
 * to tell the terminal what to do. */
void put_text(FILE *file, const char *text, size_t size);
int report(const Failure *failure); /* prints it; returns its status */
int usage_error(const Command *command, const char *format, ...) PRINTF_LIKE(2, 3);
void note(const char *format, ...) PRINTF_LIKE(1, 2);
int exit_status(ls_status status);
/* Turns what a call on the context answered into a failure. */
bool fail_status(Failure *failure, const ls_context *context, ls_status status);
double seconds(void);     /* of a clock that only goes forward */
typedef struct Progress { /* a bar on a terminal, once the work has taken a second */
    const char *what;
    double began, shown;
    bool visible;
} Progress;
Progress progress_begin(const char *what);
void progress_show(Progress *progress, uint64_t done, uint64_t total);
void progress_end(Progress *progress);

/* source.c: from FILE[:STEP] to a compilation, and to a step on a device. */
typedef struct SourceName {
    char *path;
    const char *step; /* within path; NULL when not named */
} SourceName;
SourceName source_split(const char *text);
ls_compile_options compile_options(const Common *common);
/* Compiles and prints the diagnostics. On failure *compilation is NULL and the status is returned.
 */
int source_compile(const Invocation *invocation, const char *path, ls_compilation **compilation);
/* The same, and whether a kernel can be made of every step. */
int source_check(const Invocation *invocation, const char *path, ls_compilation **compilation);
/* Finds the step that is named, or the only one. */
bool source_choose_step(const ls_compilation *compilation, const SourceName *name, size_t *step,
                        Failure *failure);
/* The target of --device, such as "cpu" or "sm_90". */
bool device_target(const Common *common, char *target, size_t capacity, Failure *failure);

typedef struct Session {
    ls_context *context;
    ls_program *program;
    ls_step *step;
    const ls_image *image;
} Session;
int session_open(const Invocation *invocation, const char *source, Session *session);
/* With `auto`, which device it is is worth a line; one that was named is not. */
void session_announce(const Invocation *invocation, const Session *session);
void session_close(Session *session);

/* profile.c: what ls_profile_begin to ls_profile_end found. */
void profile_print(const Session *session, Buffer *out);
void profile_json(const Session *session, JsonWriter *json);  /* the member "profile" */
void time_describe(double time, char *text, size_t capacity); /* "12.5 us" */

/* sizes.c: the lengths of a step's axes, as far as they are known. */
typedef struct Sizes {
    const ls_image *image;
    int64_t size[LS_AXES_MAX];       /* -1: not known; of a ragged axis: the same for all tensors */
    int64_t *lengths[LS_AXES_MAX];   /* of a ragged axis, one per tensor (-1: not known), or NULL */
    const char *set_by[LS_AXES_MAX]; /* which parameter or option gave it; NULL: none */
} Sizes;
void sizes_open(Sizes *sizes, const ls_image *image);
void sizes_close(Sizes *sizes);
/* AXIS=LENGTH,... of --size, and AXIS=LENGTH+LENGTH+... of a ragged axis. */
bool sizes_option(Sizes *sizes, const StringList *words, Failure *failure);
/* The length as given or as it follows from others; -1: not known. Any tensor of a plain axis. */
int64_t sizes_at(const Sizes *sizes, size_t axis, size_t tensor);
size_t sizes_tensors(const Sizes *sizes, size_t axis);             /* 1 for a plain axis */
bool sizes_known(const Sizes *sizes, size_t axis);                 /* for every tensor */
void sizes_describe(const Sizes *sizes, size_t axis, Buffer *out); /* "768+2304", known ones */
/* "n=64M,k=8" piece by piece: the name, and how many lengths (the caller frees them): 0 at the end
 * or, with a failure set, on a mistake. */
size_t size_next(const char **at, const char **name, size_t *name_size, int64_t **lengths,
                 Failure *failure);
/* What --size gives as the compiler takes it, each axis alone and in plain numbers; the caller
 * frees the words. */
bool sizes_split(const StringList *given, StringList *sizes, Failure *failure);
bool sizes_is_rest(const ls_image *image, size_t axis); /* k of `n as (q, k)` */
int sizes_list(const ls_image *image, size_t axis); /* the axis that counts its tensors, or -1 */
bool sizes_is_ragged(const ls_image *image, size_t axis);
bool sizes_counts_tensors(const ls_image *image, size_t axis);
int parameter_list(const ls_image *image, const ls_image_parameter *parameter); /* or -1 */

/* bind.c: arrays and numbers to a step's parameters. */
typedef struct ListTensor {
    char *name, *key; /* as a ListItem has them, or NULL */
    uint32_t rank;
    int64_t *shape;
    size_t offset, bytes; /* in the list's block */
    void *host;           /* the elements, where kernels read the host's memory; else NULL */
} ListTensor;
typedef struct Binding {
    const ls_image_parameter *parameter;
    const char *text; /* VALUE as written; NULL when not given */
    Value value;
    char *tensor;        /* the name of the array in its input file, or NULL */
    void *device;        /* the array's or list's memory; NULL when empty, unbound or rank 0 */
    void *host;          /* the same, where kernels read the host's memory: malloc'd; else NULL */
    size_t bytes;        /* of elements */
    size_t held;         /* of memory */
    ListTensor *tensors; /* of a list that is bound */
    size_t tensor_count;
    bool bound, wanted; /* wanted: a rank-0 `out` requested */
} Binding;
typedef struct Bindings {
    const Session *session;
    Binding *items; /* one per parameter of the step */
    Sizes sizes;
    bool
        in_place; /* arrays that are given stay where they are, if kernels read the host's memory */
} Bindings;
void bindings_open(const Session *session, Bindings *bindings);
/* A NAME=VALUE word: matched with its parameter and parsed, nothing loaded. */
bool bindings_parse(Bindings *bindings, const char *word, Failure *failure);
/* Every parameter that must be given and was not is named in one failure. */
bool bindings_complete(const Bindings *bindings, Failure *failure);
/* Loads what was parsed to the device and binds it; afterwards all sizes agree. */
bool bindings_load(Bindings *bindings, Failure *failure);
/* Memory for an array parameter from the sizes, bound, its contents undefined; or, for a rank-0
 * `out`, the wish to have it computed. Nothing when it is bound already. */
bool bindings_allocate(Bindings *bindings, size_t parameter, Failure *failure);
/* Elements whose count and type the array has: where they lie in memory of the host, for as long as
 * that memory stays; else (`host` is NULL) a copy, for the host need not reach what ls_alloc gave.
 */
ls_status array_fetch(ls_context *context, void *host, const void *device, Array *array);
/* An array or a value; of a list see list_fetch. */
bool bindings_fetch(Bindings *bindings, size_t parameter, Array *array, Failure *failure);
void bindings_close(Bindings *bindings);
/* The index of the parameter, or the count with a failure that suggests one. */
size_t parameter_find(const ls_image *image, const char *name, size_t size, Failure *failure);
void parameter_describe(const ls_image *image, const ls_image_parameter *parameter, char *text,
                        size_t capacity); /* "p: f32[n]" */
/* list.c: the same for list parameters. */
bool list_load(Bindings *bindings, Binding *binding, Failure *failure);
bool list_allocate(Bindings *bindings, Binding *binding, Failure *failure);
bool list_fetch(const Bindings *bindings, const Binding *binding, size_t tensor, Array *array,
                Failure *failure);
void list_close(Binding *binding);

/* measure.c: for bench and tune. */
/* Binds what was not given to random data, and says what all arrays of the step move. */
bool bind_random(Bindings *bindings, uint64_t *bytes, Failure *failure);
/* The seconds of one of so many launches in a row. */
bool time_launches(const Session *session, uint64_t times, double *time, Failure *failure);
/* How many launches make a timing of `enough` seconds. */
bool time_enough(const Session *session, double enough, uint64_t *launches, Failure *failure);
/* Processor seconds that other processes have had, or -1 where the system does not tell. */
double others_seconds(void);
double median_of(double *values, size_t count); /* sorts them */
void sizes_json(const Sizes *sizes, JsonWriter *json);
void sizes_text(const Sizes *sizes, const char *separator, Buffer *out); /* before each axis */

/* traffic.c, traffic_host.c: the traffic-only kernel of `bench`: what the memory can do for the
 * same reads and writes. Contents of arrays that are read stay as they are. */
typedef struct TrafficArray {
    void *data;
    size_t bytes, element_size;
    bool read, written;
} TrafficArray;
typedef struct Traffic Traffic;
bool traffic_open(ls_context *context, const TrafficArray *arrays, size_t count, uint32_t threads,
                  Traffic **traffic, Failure *failure);
/* Moves every byte `times` times; gives the seconds that one took. */
bool traffic_time(Traffic *traffic, uint64_t times, double *time, Failure *failure);
void traffic_close(Traffic *traffic);

typedef struct HostTraffic HostTraffic; /* threads in plain C, for the CPU */
HostTraffic *host_traffic_open(const TrafficArray *arrays, size_t count, uint32_t threads);
void host_traffic_run(HostTraffic *traffic, uint64_t times);
void host_traffic_close(HostTraffic *traffic);

/* commands.c: in the order of the help; NULL behind the last. */
const Command *command_at(size_t index);

extern const Command command_check, command_explain, command_emit, command_build, command_run,
    command_bench, command_tune, command_advise, command_devices, command_cache, command_fmt,
    command_top, command_lsp;

#endif
