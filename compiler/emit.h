/* emit.h: what the emitter's files share: emit.c (the module and the image), emit_phase.c (a
 * phase), emit_axes.c (its axes), emit_access.c (its arrays), emit_reduce.c (its reductions),
 * emit_value.c (expressions, loads, stores, names). */
#ifndef EMIT_H
#define EMIT_H

/* Axes of a phase that are walked as one: adjacent in every array the phase touches. */
typedef struct Group {
    AxisSet axes;
    const char *name; /* its coordinate's variable */
    const char *size; /* its length, an expression */
} Group;

typedef struct Names {
    const char **table; /* open addressing */
    size_t capacity, count;
} Names;

/* Device memory of the step: what image.h lists, with its C type. */
typedef struct Field {
    ls_image_temporary temporary;
    const char *type;
} Field;

typedef struct Emitter {
    const Plan *plan;
    const Function *f;
    Compiler *compiler;
    Arena *arena;
    const Target *target;
    ls_image_layout layout;
    const char *arguments;    /* the argument structure's name */
    const char **size_name;   /* by axis */
    const char **field_name;  /* by array: in the argument structure */
    const char **stride_name; /* by array and axis: in it too, where the layout has strides */
    Field *fields;            /* the plan's temporaries, then those of the phases */
    size_t field_count, field_capacity;

    /* the phase being emitted */
    const Phase *phase;
    uint32_t number;
    ls_image_extent items; /* its items of work */
    Names names;
    Group outer[LS_AXES_MAX], inner[LS_AXES_MAX];
    size_t outer_count, inner_count; /* of a column phase, the last outer group is the columns */
    const char **data_name;          /* by array: the pointer's variable, NULL until used */
    bool *four;                      /* by array: accessed by fours in the element loop */
    const char **four_name;
    const char **block_name; /* by array: the block its results may stream from, or NULL */
    const char **at_name;    /* by array: the element loop's base offset, NULL if unused */
    const char **text_of;    /* by value: its name or expression */
    const char **name_of;    /* by value: its variable, kept for a second emission */
    uint32_t *uses;          /* by value: how often the section asks for it, as operand or root */
    bool *ready;             /* by value: stands in a row section already */
    uint32_t last_line;      /* of the source: that of the last comment, 0 before the first */
    bool two_passes;         /* a logsumexp walks its tile twice when it has no buffer */
    const char **scan_name;  /* by value: the stem of a scan of the phase, also by its RUNNING */
} Emitter;

/* What a skeleton's @NAME@ stands for. */
typedef struct Hole {
    const char *name, *text;
} Hole;

/* emit_value.c */
const char *emit_unique(Emitter *e, const char *wish);
/* The same for a name that others are made from, STEM_SUFFIX, which become taken too. */
const char *emit_stem(Emitter *e, const char *wish, const char *const *suffixes);
/* Text of somebody else's within a comment, which it cannot end. */
void emit_quote(Text *out, const char *begin, const char *end);
const char *emit_type(Type type); /* a value's C type: bool is int */
const char *emit_constant(Emitter *e, Type type, uint64_t bits);
const char *emit_data(Emitter *e, uint32_t array); /* the array's pointer variable */
bool emit_has_group(const Emitter *e, uint32_t array, const Group *group);
/* The offset of an array's element from the coordinates of `groups`; "0" when it varies with none.
 */
const char *emit_offset(Emitter *e, uint32_t array, const Group *groups, size_t count);
const char *emit_join_offset(Emitter *e, const char *a, const char *b);
/* Where a section of text stands, for the offsets of its loads. */
typedef enum Place {
    PLACE_SCALAR,
    PLACE_OUTER,
    PLACE_ROW, /* one lane's column phases: per element walked down, before the columns */
    PLACE_ELEMENT,
    PLACE_EPILOGUE
} Place;
const char *emit_index(Emitter *e, uint32_t array, Place place);
/* The part of an element's offset that stays while the fastest coordinate moves, for one lane. */
const char *emit_base(Emitter *e, uint32_t array);
const char *emit_bare(Emitter *e, const char *text);
/* Statements for all that the roots need and that is neither of an available level nor ready. */
void emit_section(Emitter *e, Text *out, const ValueId *roots, size_t count, unsigned available,
                  Place place);
void emit_stores(Emitter *e, Text *out, Level level, Place place, const char *guard);
ValueId emit_stored(const Emitter *e, const PhaseStore *store); /* what is handed to the store */
bool emit_in_loop_columns(const Emitter *e);

/* The operands that are computed beside a value. */
size_t emit_operands(const Emitter *e, ValueId v, ValueId operands[3]);

/* emit_gather.c */
const char *emit_position(Emitter *e, AxisSet over); /* the flat coordinate */
const char *emit_gather(Emitter *e, const Value *value);
void emit_scatter(Emitter *e, Text *out, const PhaseStore *store, const char *guard);

/* emit_reduce.c: the lines a reduction adds to each part of a skeleton. */
typedef enum Part {
    PART_LEVELS,
    PART_LEAVES,
    PART_PUSH,
    PART_PAD,
    PART_PARTS,
    PART_PUSH_ROW,
    PART_PUSH_LANE,
    PART_PASS_END,
    PART_TILE,
    PART_PUBLISH,
    PART_GATHER,
    PART_FINISH,
    PART_COUNT
} Part;
void emit_reduction(Emitter *e, ValueId reduction, Part part, Text *out);
void emit_reduction_fields(Emitter *e, ValueId reduction);
void emit_reduction_library(Emitter *e, Text *out); /* LS_REDUCTION for every kind the plan uses */
bool emit_is_flat(const Emitter *e);                /* all tiles arrive at one counter */

/* emit_axes.c */
bool emit_has_word(const char *text, const char *word); /* as a name of its own */
bool emit_touches(const Emitter *e, uint32_t array);    /* whether the phase does */
size_t emit_groups(Emitter *e, AxisSet axes, Group *groups);
const char *emit_product(Emitter *e, const Group *groups, size_t count);
/* Coordinates of the groups from the flat position `flat`. With `run` the fastest one is only where
 * a run begins, NAME_first. */
void emit_decode(Emitter *e, Text *out, const Group *groups, size_t count, const char *flat,
                 bool run);
/* The element loop's coordinates from its flat position `at`, when one of the texts uses any. */
bool emit_coordinates(Emitter *e, Text *out, const char *body, const char *stores,
                      const char *push);
/* The same in a loop over the elements of a four, where `at` has to be computed. */
void emit_element_coordinates(Emitter *e, Text *out, const char *at, const char *body,
                              const char *stores, const char *push);
/* Local copies of what the other holes use of the argument structure. */
const char *emit_locals(Emitter *e, const Hole *holes, size_t count);

/* emit_access.c */
typedef struct StreamText {
    Text decide, bases, blocks;
} StreamText;
void emit_find_fours(Emitter *e);
void emit_find_streams(Emitter *e);
StreamText emit_streams(Emitter *e);
/* Loads before the element loop and stores after it; in a map every four is whole. */
void emit_fours(Emitter *e, Text *loads, Text *stores);
/* The offsets of the element loop's arrays up to the coordinate that moves; only for one lane. */
const char *emit_bases(Emitter *e);

/* emit_phase.c, emit_scan.c */
typedef struct PhaseText {
    const char *name;
    ls_image_extent items;
    uint64_t item_cost;
    const char *item_count; /* the items as an expression over `a` */
} PhaseText;
PhaseText emit_phase(Emitter *e, uint32_t number, Text *out);
void emit_name_scans(Emitter *e);
const char *emit_scan_text(Emitter *e, const Value *value); /* of a scan or its RUNNING */
void emit_scans_start(Emitter *e, Text *running, Text *start);
void emit_scans_advance(Emitter *e, Text *out);
void emit_scan_items(Emitter *e, ls_image_extent *items, PhaseText *text);
const char *emit_add_field(Emitter *e, const char *wish, const char *type, ls_image_extent bytes,
                           bool zeroed);

/* emit.c */
void emit_fill(Emitter *e, Text *out, const char *skeleton, const Hole *holes, size_t count);
ls_image_extent emit_extent(uint64_t scale, AxisSet axes);

#endif
