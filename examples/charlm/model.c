/* model.c: the parameters of the GPT, and its passes as lists of steps and products.
 *
 * Shapes: B windows of T characters, R = B T rows, C channels in H heads of D, F hidden units,
 * V letters. A weight matrix is stored as [outputs, inputs], so a layer is Y = X W'. */
#include "charlm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parameters in order: those of the model's start, of each layer, of its end. */
enum { LETTERS, PLACES, FIRST_LAYER };
enum { NORM_1, QKV, PROJECT, NORM_2, UP, DOWN, PER_LAYER };
enum { NORM_OUT, HEAD, AT_END };

/* Keys of random draws; what draws at the same count must differ. */
enum { SEED_WEIGHTS = 1, SEED_WINDOWS, SEED_SAMPLE, SEED_BRANCHES };
static int64_t seed_of(const Model *model, int64_t which) {
    return model->options->seed * 1000 + which;
}

/* ---- parameters ---- */

typedef struct Making {
    Machine *machine;
    Parameters *parameters;
    bool whole_moments, gradients;
} Making;

/* Matrices are spread and decay, gains (spread 0) start at 1 and do not. */
static void add_parameter(Making *making, const char *layer, const char *name, double spread,
                          int64_t rows, int64_t columns) {
    Machine *machine = making->machine;
    Parameters *all = making->parameters;
    const size_t i = all->count++;
    const int64_t shape[2] = {rows ? rows : columns, columns};
    const struct {
        Array *array;
        bool here; /* with --slots a rank has less of its own, see slots.c */
    } arrays[] = {{&all->values[i], true},
                  {&all->first[i], making->whole_moments},
                  {&all->second[i], making->whole_moments},
                  {&all->gradients[i], making->gradients}};
    for (size_t k = 0; k < COUNT(arrays); k++) {
        *arrays[k].array = array_as((Array){.type = LS_F32}, rows ? 2 : 1, shape);
        if (arrays[k].here) *arrays[k].array = machine_array(machine, LS_F32, rows ? 2 : 1, shape);
    }
    snprintf(all->names[i], sizeof all->names[i], "%s%s", layer, name);
    all->spread[i] = (float)spread;
    all->middle[i] = rows ? 0.0f : 1.0f;
    all->decay[i] = rows ? 1.0f : 0.0f;
}

static bool allocate_lists(Parameters *all, size_t most) {
    Array **const lists[] = {&all->values, &all->first, &all->second, &all->gradients,
                             &all->working};
    float **const numbers[] = {&all->decay, &all->spread, &all->middle};
    bool ok = (all->names = calloc(most, sizeof *all->names)) != NULL;
    for (size_t k = 0; k < COUNT(lists); k++)
        ok = (*lists[k] = calloc(most, sizeof(Array))) != NULL && ok;
    for (size_t k = 0; k < COUNT(numbers); k++)
        ok = (*numbers[k] = calloc(most, sizeof(float))) != NULL && ok;
    return ok || fail("out of host memory");
}

static void make_parameters(Model *model) {
    const Options *o = model->options;
    Making making = {model->machine, &model->parameters, model->whole_moments, o->slots == 0};
    Parameters *all = &model->parameters;
    const int64_t c = o->channels, f = model->hidden, v = model->letters;
    /* Outputs are as large as inputs, and less so where many add to the residual stream. */
    const double spread = 1 / sqrt((double)c), residual = spread / sqrt(2.0 * (double)o->layers);
    add_parameter(&making, "", "letters", spread, v, c);
    add_parameter(&making, "", "places", spread, o->context, c);
    for (long layer = 0; layer < o->layers; layer++) {
        char name[32];
        snprintf(name, sizeof name, "layer%02ld.", layer);
        add_parameter(&making, name, "norm1", 0, 0, c);
        add_parameter(&making, name, "qkv", spread, 3 * c, c);
        add_parameter(&making, name, "project", residual, c, c);
        add_parameter(&making, name, "norm2", 0, 0, c);
        add_parameter(&making, name, "up", spread, 2 * f, c);
        add_parameter(&making, name, "down", residual, c, f);
    }
    add_parameter(&making, "", "norm", 0, 0, c);
    add_parameter(&making, "", "head", spread, v, c);
    for (size_t i = 0; i < all->count; i++) {
        all->decay[i] *= (float)o->decay;
        all->working[i] = all->values[i];
        if (model->type != LS_F32)
            all->working[i] = machine_array(model->machine, model->type, all->values[i].rank,
                                            all->values[i].shape);
    }
}

static size_t of_layer(long layer, int which) {
    return (size_t)(FIRST_LAYER + layer * PER_LAYER + which);
}

static size_t at_end(const Model *model, int which) {
    return (size_t)(FIRST_LAYER + model->options->layers * PER_LAYER + which);
}

bool model_open(Model *model, Machine *machine, const Options *options, const Text *text) {
    *model = (Model){.machine = machine, .options = options, .text = text};
    model->type = strcmp(options->type, "f32") == 0   ? LS_F32
                  : strcmp(options->type, "f16") == 0 ? LS_F16
                                                      : LS_BF16;
    model->letters = text->count;
    const bool offloads = options->offload && !ls_context_shares_memory(machine->context);
    model->whole_moments = (ls_comm_size(machine->comm) == 1 && !offloads) ||
                           (ls_comm_rank(machine->comm) == 0 && !offloads && options->hash);
    model->hidden = (options->channels * 8 / 3 + 31) / 32 * 32;
    if (!allocate_lists(&model->parameters,
                        (size_t)(FIRST_LAYER + options->layers * PER_LAYER + AT_END)))
        return false;
    make_parameters(model);
    State *state = &model->state;
    const struct {
        Array *array;
        ls_type type;
    } cells[] = {{&state->draws, LS_I64}, {&state->count, LS_I32},   {&state->scale, LS_F32},
                 {&state->good, LS_I32},  {&state->skipped, LS_I64}, {&state->rate, LS_F32},
                 {&state->norm, LS_F32},  {&state->total, LS_F32},   {&state->batches, LS_I64},
                 {&state->parts, LS_F32}};
    for (size_t i = 0; i < COUNT(cells); i++)
        *cells[i].array = machine_array(machine, cells[i].type, 0, NULL);
    const float scale = (float)options->first_scale;
    array_write(machine, state->scale, &scale);
    const int64_t size = (int64_t)text->size, training = (int64_t)text->training;
    model->training_text = ARRAY(machine, LS_U8, training);
    model->validation_text = ARRAY(machine, LS_U8, size - training);
    array_write(machine, model->training_text, text->letters);
    array_write(machine, model->validation_text, text->letters + training);
    if (options->slots && !machine->failed) return slots_open(model);
    if (offloads && !machine->failed) return offload_open(model);
    return !machine->failed;
}

void model_close(Model *model) {
    slots_close(model->slots);
    offload_close(model->offload);
    Parameters *all = &model->parameters;
    void *const lists[] = {all->values, all->first, all->second, all->gradients, all->working,
                           all->names,  all->decay, all->spread, all->middle};
    for (size_t i = 0; i < COUNT(lists); i++) free(lists[i]);
    *model = (Model){0};
}

int64_t model_size(const Model *model) {
    int64_t size = 0;
    for (size_t i = 0; i < model->parameters.count; i++)
        size += array_size(model->parameters.values[i]);
    return size;
}

Array model_numbers(Model *model, const float *values, size_t count) {
    Array array = ARRAY(model->machine, LS_F32, (int64_t)count);
    array_write(model->machine, array, values);
    return array;
}

static Array per_parameter(Model *model, const float *values) {
    return model_numbers(model, values, model->parameters.count);
}

static void run_once(Model *model, Tape *tape) {
    tape_run(model->machine, tape);
    tape_close(tape);
}

void model_initialise(Model *model) {
    Parameters *all = &model->parameters;
    Tape tape = {0};
    STEP(model->machine, model->machine->plain, &tape, "initialise",
         LIST("p", all->values, all->count), BIND("middle", per_parameter(model, all->middle)),
         BIND("spread", per_parameter(model, all->spread)),
         VALUE("seed", (double)seed_of(model, SEED_WEIGHTS)));
    run_once(model, &tape);
    model_refresh(model);
}

void model_refresh(Model *model) {
    Parameters *all = &model->parameters;
    Tape tape = {0};
    if (model->type == LS_F32) return;
    STEP(model->machine, model->machine->plain, &tape, "copy_weights",
         LIST("p", all->values, all->count), LIST("w", all->working, all->count));
    run_once(model, &tape);
}

void model_update_tensors(Model *model, Tape *tape, size_t first, size_t count, const Array *m,
                          const Array *v, Array counter) {
    Parameters *all = &model->parameters;
    State *state = &model->state;
    const Argument arguments[] = {
        LIST("p", &all->values[first], count),
        LIST("m", m, count),
        LIST("v", v, count),
        LIST("g", &all->gradients[first], count),
        BIND("decay", model_numbers(model, &all->decay[first], count)),
        VALUE("ones", 1),
        BIND("count", counter),
        BIND("scale", state->scale),
        BIND("lr", state->rate),
        BIND("length", state->norm),
        VALUE("limit", model->options->clip),
        LIST("w", &all->working[first], count), /* left out: nobody wants another copy in f32 */
    };
    tape_step(model->machine, model->machine->training, tape, "update_tensors", arguments,
              COUNT(arguments) - (model->type == LS_F32));
}

void model_rescale(Model *model, Tape *tape) {
    State *state = &model->state;
    STEP(model->machine, model->machine->training, tape, "rescale", BIND("length", state->norm),
         BIND("scale", state->scale), BIND("good", state->good), BIND("skipped", state->skipped));
}

void model_measure(Model *model, Tape *tape) {
    Parameters *all = &model->parameters;
    const Options *o = model->options;
    State *state = &model->state;
    STEP(model->machine, model->machine->training, tape, "measure",
         LIST("g", all->gradients, all->count), BIND("count", state->count),
         BIND("scale", state->scale), BIND("lr", state->rate), BIND("length", state->norm),
         VALUE("peak", o->rate), VALUE("last", o->last), VALUE("warm", (double)o->warm),
         VALUE("total", (double)o->steps));
}

void model_update(Model *model, Tape *tape) {
    Parameters *all = &model->parameters;
    const Options *o = model->options;
    State *state = &model->state;
    const Argument arguments[] = {
        LIST("p", all->values, all->count),
        LIST("m", all->first, all->count),
        LIST("v", all->second, all->count),
        LIST("g", all->gradients, all->count),
        BIND("decay", per_parameter(model, all->decay)),
        VALUE("ones", 1),
        BIND("count", state->count),
        BIND("scale", state->scale),
        BIND("good", state->good),
        BIND("skipped", state->skipped),
        BIND("lr", state->rate),
        BIND("length", state->norm),
        VALUE("peak", o->rate),
        VALUE("last", o->last),
        VALUE("warm", (double)o->warm),
        VALUE("total", (double)o->steps),
        VALUE("limit", o->clip),
        LIST("w", all->working, all->count), /* left out: nobody wants another copy in f32 */
    };
    tape_step(model->machine, model->machine->training, tape, "update", arguments,
              COUNT(arguments) - (model->type == LS_F32));
}

void model_update_apart(Model *model, Array counters, Tape *tape) {
    Machine *machine = model->machine;
    Parameters *all = &model->parameters;
    const Options *o = model->options;
    State *state = &model->state;
    const Array square = machine_array(machine, LS_F32, 0, NULL);
    ls_program *program = machine->training;
    for (size_t i = 0; i < all->count; i++)
        STEP(machine, program, tape, "add_square", LIST("g", &all->gradients[i], 1),
             BIND("square", square));
    STEP(machine, program, tape, "measure_square", BIND("square", square),
         BIND("count", state->count), BIND("scale", state->scale), BIND("lr", state->rate),
         BIND("length", state->norm), VALUE("peak", o->rate), VALUE("last", o->last),
         VALUE("warm", (double)o->warm), VALUE("total", (double)o->steps));
    for (size_t i = 0; i < all->count; i++) {
        Array counter = state->count; /* each launch counts for itself */
        if (i > 0) counter = array_as(array_slice(counters, (int64_t)i, 1), 0, NULL);
        model_update_tensors(model, tape, i, 1, &all->first[i], &all->second[i], counter);
    }
    model_rescale(model, tape);
}

/* ---- a pass ---- */

typedef struct Layer { /* what the backward pass reads again; norms as [R, C] */
    Array x, y1, qkv, scores, weights, mixed, h, y2, up, hidden;
} Layer;

/* Activation checkpointing (Chen et al., 2016, arXiv:1604.06174): what of the layers stays until
 * the backward pass. The rest of a layer is computed again there, from x and y1, with the same
 * bits: draws are made by number. */
typedef enum Kept {
    KEPT_WHOLE, /* everything */
    KEPT_INPUT, /* x and y1 of every layer */
    KEPT_FEW    /* those of each `segment`th layer; the others of a segment are made from them */
} Kept;

typedef struct Builder {
    Model *model;
    Machine *machine;
    ls_program *program;
    Tape *tape;
    int64_t b, t, r, c, heads, d, f, v;
    const Array *gradients;
    Layer *layers;
    Kept kept;
    long segment;
    Array branch;  /* what the layer at hand adds to the residual stream */
    Array last, y; /* the residual stream's end, and its norm */
} Builder;

static Array activation(const Builder *k, int64_t rows, int64_t columns) {
    return ARRAY(k->machine, k->model->type, rows, columns);
}

static Array value(const Builder *k, size_t parameter) {
    return k->model->parameters.values[parameter];
}

static Array gradient(const Builder *k, size_t parameter) {
    return k->gradients[parameter];
}

static Matrix matrix(Array array) {
    return (Matrix){.data = array.data,
                    .type = array.type,
                    .rows = array.shape[0],
                    .columns = array.shape[1],
                    .stride = array.shape[1]};
}

static Matrix turned(Matrix matrix) {
    matrix.turned = true;
    return matrix;
}

/* y = x w' */
static void layer_forward(Builder *k, Array y, Array x, size_t parameter) {
    const Array w = k->model->parameters.working[parameter];
    tape_product(
        k->machine, k->tape,
        (Product){.c = matrix(y), .a = matrix(x), .b = turned(matrix(w)), .outer = 1, .inner = 1});
}

/* dx = dy w, dw += dy' x */
static void layer_backward(Builder *k, Array dy, Array x, Array dx, size_t parameter) {
    const Array w = k->model->parameters.working[parameter];
    tape_product(
        k->machine, k->tape,
        (Product){.c = matrix(dx), .a = matrix(dy), .b = matrix(w), .outer = 1, .inner = 1});
    tape_product(k->machine, k->tape,
                 (Product){.c = matrix(gradient(k, parameter)),
                           .a = turned(matrix(dy)),
                           .b = matrix(x),
                           .add = true,
                           .outer = 1,
                           .inner = 1});
}

/* The heads of all windows: D columns of [B, T, width] each, beginning at column `first`. */
static Matrix heads(const Builder *k, Array array, int64_t first) {
    const int64_t width = array.shape[1];
    return (Matrix){
        .data = array.data ? (char *)array.data + first * (int64_t)ls_type_size(array.type) : NULL,
        .type = array.type,
        .rows = k->t,
        .columns = k->d,
        .stride = width,
        .outer_step = k->t * width,
        .inner_step = k->d};
}

/* [B, H, T, T]: a square for each of them. */
static Matrix squares(const Builder *k, Array array) {
    return (Matrix){.data = array.data,
                    .type = array.type,
                    .rows = k->t,
                    .columns = k->t,
                    .stride = k->t,
                    .outer_step = k->heads * k->t * k->t,
                    .inner_step = k->t * k->t};
}

static void heads_product(Builder *k, Matrix c, Matrix a, Matrix b) {
    tape_product(k->machine, k->tape,
                 (Product){.c = c, .a = a, .b = b, .outer = k->b, .inner = k->heads});
}

static void attention_forward(Builder *k, const Layer *layer) {
    heads_product(k, squares(k, layer->scores), heads(k, layer->qkv, 0),
                  turned(heads(k, layer->qkv, k->c)));
    STEP(k->machine, k->program, k->tape, "attend", BIND("scores", layer->scores),
         BIND("weights", layer->weights), VALUE("scale", 1 / sqrt((double)k->d)));
    heads_product(k, heads(k, layer->mixed, 0), squares(k, layer->weights),
                  heads(k, layer->qkv, 2 * k->c));
}

/* h = x + branch, y = norm(h); the branch number decides the draws of its dropout. */
static void add_norm(Builder *k, Array x, Array branch, Array h, Array y, size_t gain,
                     int64_t number) {
    STEP(k->machine, k->program, k->tape, "add_norm", BIND("x", x), BIND("branch", branch),
         BIND("gain", value(k, gain)), BIND("h", h), BIND("y", y),
         VALUE("seed", (double)seed_of(k->model, SEED_BRANCHES + number)),
         BIND("draws", k->model->state.draws));
}

/* Memory of a layer's activations but x and y1. */
static void open_rest(Builder *k, Layer *layer) {
    const int64_t g = k->b * k->heads;
    layer->qkv = activation(k, k->r, 3 * k->c);
    layer->scores = ARRAY(k->machine, k->model->type, g, k->t, k->t);
    layer->weights = ARRAY(k->machine, k->model->type, g, k->t, k->t);
    layer->mixed = activation(k, k->r, k->c);
    layer->h = activation(k, k->r, k->c);
    layer->y2 = activation(k, k->r, k->c);
    layer->up = activation(k, k->r, 2 * k->f);
    layer->hidden = activation(k, k->r, k->f);
}

/* Layers share what does not stay. */
static void open_layers(Builder *k) {
    const long count = k->model->options->layers;
    for (long i = 0; i < count; i++) {
        const bool own_input = k->kept != KEPT_FEW || i < k->segment || i % k->segment == 0;
        Layer *layer = &k->layers[i];
        if (k->kept != KEPT_WHOLE && i > 0)
            *layer = k->layers[0];
        else
            open_rest(k, layer);
        layer->x = own_input ? activation(k, k->r, k->c) : k->layers[i % k->segment].x;
        layer->y1 = own_input ? activation(k, k->r, k->c) : k->layers[i % k->segment].y1;
    }
    k->branch = activation(k, k->r, k->c);
}

/* x of a layer from the one before, and its norm. */
static void enter_layer(Builder *k, long i) {
    const Layer *layer = &k->layers[i];
    add_norm(k, layer[-1].h, k->branch, layer->x, layer->y1, of_layer(i, NORM_1), 2 * i - 1);
}

/* All of a layer from its x and y1. */
static void run_layer(Builder *k, long i) {
    const Layer *layer = &k->layers[i];
    layer_forward(k, layer->qkv, layer->y1, of_layer(i, QKV));
    attention_forward(k, layer);
    layer_forward(k, k->branch, layer->mixed, of_layer(i, PROJECT));
    add_norm(k, layer->x, k->branch, layer->h, layer->y2, of_layer(i, NORM_2), 2 * i);
    layer_forward(k, layer->up, layer->y2, of_layer(i, UP));
    STEP(k->machine, k->program, k->tape, "swiglu_half", BIND("up", AS(layer->up, k->r, 2, k->f)),
         BIND("y", layer->hidden));
}

/* And what it adds to the residual stream. */
static void leave_layer(Builder *k, long i) {
    layer_forward(k, k->branch, k->layers[i].hidden, of_layer(i, DOWN));
}

/* Before a layer's backward pass: makes again what of it has not stayed. The last layer's is there,
 * and so are x and y1 of the segment at hand. */
static void run_layer_again(Builder *k, long i) {
    const long last = k->model->options->layers - 1, first = i / k->segment * k->segment;
    if (k->kept == KEPT_WHOLE || i == last) return;
    const bool ends = k->kept == KEPT_FEW && i % k->segment == k->segment - 1;
    for (long j = first; ends && j < i; j++) {
        run_layer(k, j);
        leave_layer(k, j);
        enter_layer(k, j + 1);
    }
    run_layer(k, i);
}

static void forward(Builder *k, Pass *pass) {
    const long count = k->model->options->layers;
    open_layers(k);
    const Layer *first = &k->layers[0];
    STEP(k->machine, k->program, k->tape, "embed", BIND("text", pass->text),
         BIND("start", pass->start), BIND("letters", value(k, LETTERS)),
         BIND("places", value(k, PLACES)), BIND("x", AS(first->x, k->b, k->t, k->c)));
    STEP(k->machine, k->program, k->tape, "rms", BIND("x", first->x),
         BIND("gain", value(k, of_layer(0, NORM_1))), BIND("y", first->y1));
    for (long i = 0; i < count; i++) {
        if (i > 0) enter_layer(k, i);
        run_layer(k, i);
        leave_layer(k, i);
    }
    k->last = activation(k, k->r, k->c);
    k->y = activation(k, k->r, k->c);
    add_norm(k, k->layers[count - 1].h, k->branch, k->last, k->y, at_end(k->model, NORM_OUT),
             2 * count - 1);
    pass->logits = ARRAY(k->machine, LS_F32, k->r, k->v);
    layer_forward(k, pass->logits, k->y, at_end(k->model, HEAD));
}

/* dh, the gradient of the residual stream, gains that of the norm; gives the branch's, which
 * without dropout is dh itself. */
static Array norm_backward(Builder *k, Array h, size_t gain, Array dy, Array dh, Array dbranch,
                           int64_t number) {
    const bool drops = k->model->options->dropout > 0 && number >= 0;
    const Argument arguments[] = {
        BIND("h", h),
        BIND("gain", value(k, gain)),
        BIND("dy", dy),
        BIND("dh", dh),
        BIND("dgain", gradient(k, gain)),
        VALUE("seed", (double)seed_of(k->model, SEED_BRANCHES + number)),
        BIND("draws", k->model->state.draws),
        BIND("dbranch", dbranch), /* not always */
    };
    tape_step(k->machine, k->program, k->tape, "norm_backward", arguments,
              COUNT(arguments) - !drops);
    return drops ? dbranch : dh;
}

/* The gradients of these parameters are whole here. */
static void note_ready(const Builder *k, Pass *pass, size_t first, size_t last) {
    if (pass->ready) pass->ready[pass->ready_count++] = (Ready){k->tape->count, first, last};
}

static void backward(Builder *k, Pass *pass, Array dlogits) {
    const long count = k->model->options->layers;
    const int64_t c = k->c, g = k->b * k->heads, t = k->t;
    const Array dh = activation(k, k->r, c), dy = activation(k, k->r, c);
    const Array dropped = activation(k, k->r, c), dmixed = activation(k, k->r, c);
    const Array dhidden = activation(k, k->r, k->f), dup = activation(k, k->r, 2 * k->f);
    const Array dqkv = activation(k, k->r, 3 * c);
    const Array dweights = ARRAY(k->machine, k->model->type, g, t, t);
    const Array dscores = ARRAY(k->machine, k->model->type, g, t, t);
    STEP(k->machine, k->program, k->tape, "clear", BIND("x", dh));
    layer_backward(k, dlogits, k->y, dy, at_end(k->model, HEAD));
    Array dbranch =
        norm_backward(k, k->last, at_end(k->model, NORM_OUT), dy, dh, dropped, 2 * count - 1);
    note_ready(k, pass, at_end(k->model, 0), at_end(k->model, AT_END));
    for (long i = count - 1; i >= 0; i--) {
        const Layer *layer = &k->layers[i];
        run_layer_again(k, i);
        layer_backward(k, dbranch, layer->hidden, dhidden, of_layer(i, DOWN));
        STEP(k->machine, k->program, k->tape, "swiglu_half_backward",
             BIND("up", AS(layer->up, k->r, 2, k->f)), BIND("dy", dhidden),
             BIND("dup", AS(dup, k->r, 2, k->f)));
        layer_backward(k, dup, layer->y2, dy, of_layer(i, UP));
        dbranch = norm_backward(k, layer->h, of_layer(i, NORM_2), dy, dh, dropped, 2 * i);
        layer_backward(k, dbranch, layer->mixed, dmixed, of_layer(i, PROJECT));
        heads_product(k, squares(k, dweights), heads(k, dmixed, 0),
                      turned(heads(k, layer->qkv, 2 * c)));
        heads_product(k, heads(k, dqkv, 2 * c), turned(squares(k, layer->weights)),
                      heads(k, dmixed, 0));
        STEP(k->machine, k->program, k->tape, "attend_backward", BIND("scores", layer->scores),
             BIND("dweights", dweights), BIND("dscores", dscores),
             VALUE("scale", 1 / sqrt((double)k->d)));
        heads_product(k, heads(k, dqkv, 0), squares(k, dscores), heads(k, layer->qkv, c));
        heads_product(k, heads(k, dqkv, c), turned(squares(k, dscores)), heads(k, layer->qkv, 0));
        layer_backward(k, dqkv, layer->y1, dy, of_layer(i, QKV));
        dbranch = norm_backward(k, layer->x, of_layer(i, NORM_1), dy, dh, dropped,
                                i == 0 ? -1 : 2 * i - 1);
        note_ready(k, pass, of_layer(i, 0), of_layer(i, PER_LAYER));
    }
    STEP(k->machine, k->program, k->tape, "embed_backward", BIND("text", pass->text),
         BIND("start", pass->start), BIND("letters", value(k, LETTERS)),
         BIND("places", value(k, PLACES)), BIND("dx", AS(dh, k->b, k->t, c)),
         BIND("dletters", gradient(k, LETTERS)), BIND("dplaces", gradient(k, PLACES)));
    note_ready(k, pass, 0, FIRST_LAYER);
}

/* Which windows of the text, before the forward pass. */
static void draw(Builder *k, PassKind kind, Pass *pass) {
    const Model *model = k->model;
    if (pass->text.data) return; /* where they lie was given */
    pass->start = ARRAY(k->machine, LS_I64, k->b);
    pass->text = kind == PASS_VALIDATION ? model->validation_text : model->training_text;
    if (kind != PASS_VALIDATION)
        STEP(k->machine, k->program, k->tape, "draw_windows", BIND("text", pass->text),
             VALUE("length", (double)k->t), VALUE("seed", (double)seed_of(model, SEED_WINDOWS)),
             BIND("draws", model->state.draws), BIND("start", pass->start));
    else
        pass->windows = STEP(k->machine, k->program, k->tape, "next_windows",
                             VALUE("length", (double)k->t), BIND("start", pass->start));
}

/* Of a slot the loss is summed, and divided when all are added up. */
static void finish_slot(Builder *k, PassInput input, Pass *pass) {
    const Array dlogits = activation(k, k->r, k->v);
    pass->total = input.total;
    STEP(k->machine, k->program, k->tape, "slot_loss", BIND("text", pass->text),
         BIND("start", pass->start), BIND("logits", AS(pass->logits, k->b, k->t, k->v)),
         BIND("total", input.total), BIND("letters", input.letters),
         BIND("scale", k->model->state.scale), BIND("dlogits", AS(dlogits, k->b, k->t, k->v)));
    backward(k, pass, dlogits);
}

/* The loss, and of training everything behind it. */
static void finish(Builder *k, PassKind kind, Pass *pass) {
    const Model *model = k->model;
    const Options *o = model->options;
    const bool training = kind == PASS_TRAINING;
    if (kind == PASS_SAMPLING) return;
    pass->total = training ? model->state.total : machine_array(k->machine, LS_F32, 0, NULL);
    pass->batches = training ? model->state.batches : machine_array(k->machine, LS_I64, 0, NULL);
    Array dlogits = {0}, scale = {0}, parts = {0};
    if (training) dlogits = activation(k, k->r, k->v);
    if (training) scale = model->state.scale; /* else the number */
    if (training && o->automatic) parts = model->state.parts;
    const Argument arguments[] = {
        BIND("text", pass->text),
        BIND("start", pass->start),
        BIND("logits", AS(pass->logits, k->b, k->t, k->v)),
        BIND("total", pass->total),
        BIND("batches", pass->batches),
        {.name = "parts", .array = parts, .number = (double)o->micro},
        {.name = "scale", .array = scale, .number = 1},
        BIND("dlogits", AS(dlogits, k->b, k->t, k->v)), /* of training */
    };
    tape_step(k->machine, k->program, k->tape, "loss", arguments, COUNT(arguments) - !training);
    if (training) backward(k, pass, dlogits);
}

static Kept kept_of(const Options *options) {
    return strcmp(options->checkpoint, "none") == 0     ? KEPT_WHOLE
           : strcmp(options->checkpoint, "layers") == 0 ? KEPT_INPUT
                                                        : KEPT_FEW;
}

void pass_open(Model *model, PassKind kind, PassInput input, Pass *pass) {
    const Options *o = model->options;
    Machine *machine = model->machine;
    const bool trains = kind == PASS_TRAINING || kind == PASS_SLOT;
    const int64_t windows = kind == PASS_SLOT ? o->batch / o->slots : o->batch;
    *pass = (Pass){
        .batch = kind == PASS_SAMPLING ? 1 : windows, .text = input.text, .start = input.start};
    Builder k = {.model = model,
                 .machine = machine,
                 .gradients = kind == PASS_SLOT ? input.gradients : model->parameters.gradients,
                 .program = trains ? machine->training : machine->plain,
                 .tape = &pass->tape,
                 .b = pass->batch,
                 .t = o->context,
                 .r = pass->batch * o->context,
                 .c = o->channels,
                 .heads = o->heads,
                 .d = o->channels / o->heads,
                 .f = model->hidden,
                 .v = model->letters,
                 .layers = calloc((size_t)o->layers, sizeof(Layer)),
                 .kept = trains ? kept_of(o) : KEPT_INPUT,
                 .segment = (long)ceil(sqrt((double)o->layers))};
    if (kind == PASS_SLOT) pass->ready = calloc((size_t)o->layers + 2, sizeof *pass->ready);
    if (!k.layers || (kind == PASS_SLOT && !pass->ready)) {
        machine->failed = !fail("out of host memory");
        free(k.layers);
        return;
    }
    draw(&k, kind, pass);
    forward(&k, pass);
    if (kind == PASS_SLOT)
        finish_slot(&k, input, pass);
    else
        finish(&k, kind, pass);
    free(k.layers);
}

void pass_close(Pass *pass) {
    tape_close(&pass->tape);
    free(pass->ready);
}
