/* model.c: the parameters of GPT-2 in one buffer, and its passes as lists of calls.
 *
 * Shapes: B windows of T tokens, R = B T rows, C channels in H heads of D, V classes that lie in
 * rows of `padded`. A weight matrix is stored as [outputs, inputs], so a layer is Y = X W'. The
 * rows of the table of classes behind V are zero and so are the logits there: their gradients stay
 * zero, too, and the products need not know. */
#include "minigpt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PADDED_TO = 128, ALIGNMENT = 64 };

static const struct {
    const char *name;
    bool of_layers, decays;
} tensors[TENSORS] = {
    [CLASSES] = {"classes", false, true},
    [PLACES] = {"places", false, true},
    [NORM_1_GAIN] = {"norm1.gain", true, false},
    [NORM_1_SHIFT] = {"norm1.shift", true, false},
    [QKV] = {"qkv", true, true},
    [QKV_BIAS] = {"qkv.bias", true, false},
    [PROJECT] = {"project", true, true},
    [PROJECT_BIAS] = {"project.bias", true, false},
    [NORM_2_GAIN] = {"norm2.gain", true, false},
    [NORM_2_SHIFT] = {"norm2.shift", true, false},
    [UP] = {"up", true, true},
    [UP_BIAS] = {"up.bias", true, false},
    [DOWN] = {"down", true, true},
    [DOWN_BIAS] = {"down.bias", true, false},
    [NORM_GAIN] = {"norm.gain", false, false},
    [NORM_SHIFT] = {"norm.shift", false, false},
};

const char *tensor_name(int tensor) {
    return tensors[tensor].name;
}

/* Elements of a tensor, of one layer where it is of layers. */
static int64_t size_of(const Model *model, int tensor) {
    const int64_t c = model->channels;
    switch (tensor) {
    case CLASSES: return model->padded * c;
    case PLACES: return model->options->context * c;
    case QKV: return 3 * c * c;
    case QKV_BIAS: return 3 * c;
    case PROJECT: return c * c;
    case UP:
    case DOWN: return 4 * c * c;
    case UP_BIAS: return 4 * c;
    default: return c;
    }
}

static float *zeros(size_t count) {
    const size_t bytes = (count * sizeof(float) / ALIGNMENT + 1) * ALIGNMENT;
    float *memory = aligned_alloc(ALIGNMENT, bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

static bool allocate(Model *model) {
    const Options *o = model->options;
    for (int i = 0; i < TENSORS; i++) {
        model->sizes[i] = size_of(model, i) * (tensors[i].of_layers ? o->layers : 1);
        model->parameters += model->sizes[i];
        model->decay[i] = tensors[i].decays ? (float)o->decay : 0;
    }
    const struct {
        float **buffer, **of;
    } buffers[] = {{&model->values, model->of_value},
                   {&model->gradients, model->of_gradient},
                   {&model->first, model->of_first},
                   {&model->second, model->of_second}};
    for (size_t k = 0; k < COUNT(buffers); k++) {
        float *at = *buffers[k].buffer = zeros((size_t)model->parameters);
        if (!at) return fail("out of memory for %lld parameters", (long long)model->parameters);
        for (int i = 0; i < TENSORS; at += model->sizes[i++]) buffers[k].of[i] = at;
    }
    model->token = calloc((size_t)model->rows, sizeof *model->token);
    model->target = calloc((size_t)model->rows, sizeof *model->target);
    model->layers = calloc((size_t)o->layers, sizeof *model->layers);
    return (model->token && model->target && model->layers) || fail("out of memory");
}

static float normal(uint64_t *seed) { /* by Box and Muller */
    const float radius = sqrtf(-2 * logf(1 - uniform(seed)));
    return radius * cosf(6.283185307f * uniform(seed));
}

static void initialise(Model *model) {
    const Options *o = model->options;
    uint64_t seed = (uint64_t)o->seed;
    const float spread = 0.02f, residual = spread / sqrtf(2 * (float)o->layers);
    for (int i = 0; i < TENSORS; i++) {
        const bool gain = i == NORM_1_GAIN || i == NORM_2_GAIN || i == NORM_GAIN;
        const float scale = i == PROJECT || i == DOWN ? residual : spread;
        const int64_t used = i == CLASSES ? model->classes * model->channels : model->sizes[i];
        for (int64_t k = 0; k < used && (gain || tensors[i].decays); k++)
            model->of_value[i][k] = gain ? 1 : scale * normal(&seed);
    }
}

/* ---- a pass ---- */

typedef struct Builder {
    Model *model;
    int64_t b, t, r, c, heads, d;
    float *at; /* in the memory of a pass; NULL while its size is found */
    size_t used;
    float *last, *y, *mean, *rstd, *branch, *logits; /* behind the layers */
    float *dh, *dy, *dup, *dqkv, *dweight;
} Builder;

static float *take(Builder *k, int64_t count) {
    float *taken = k->at ? k->at + k->used : NULL;
    k->used += (size_t)(count + 15) / 16 * 16;
    return taken;
}

static void lay_out(Builder *k) {
    const int64_t rc = k->r * k->c, squares = k->b * k->heads * k->t * k->t;
    k->used = 0;
    for (long i = 0; i < k->model->options->layers; i++) {
        Layer *layer = &k->model->layers[i];
        float **const wide[] = {&layer->x, &layer->y1, &layer->mixed, &layer->h, &layer->y2};
        float **const narrow[] = {&layer->mean1, &layer->rstd1, &layer->mean2, &layer->rstd2};
        for (size_t j = 0; j < COUNT(wide); j++) *wide[j] = take(k, rc);
        for (size_t j = 0; j < COUNT(narrow); j++) *narrow[j] = take(k, k->r);
        layer->qkv = take(k, 3 * rc);
        layer->weight = take(k, squares);
        layer->up = take(k, 4 * rc);
        layer->hidden = take(k, 4 * rc);
    }
    float **const wide[] = {&k->last, &k->y, &k->branch, &k->dh, &k->dy};
    for (size_t j = 0; j < COUNT(wide); j++) *wide[j] = take(k, rc);
    k->mean = take(k, k->r);
    k->rstd = take(k, k->r);
    k->logits = take(k, k->r * k->model->padded);
    k->dup = take(k, 4 * rc);
    k->dqkv = take(k, 3 * rc);
    k->dweight = take(k, squares);
}

/* A tensor of a layer, or of the model. */
static float *value(const Builder *k, int tensor, long layer) {
    return k->model->of_value[tensor] + layer * size_of(k->model, tensor);
}

static float *gradient(const Builder *k, int tensor, long layer) {
    return k->model->of_gradient[tensor] + layer * size_of(k->model, tensor);
}

static Matrix matrix(float *data, int64_t stride) {
    return (Matrix){.data = data, .stride = stride};
}

static Matrix turned(Matrix matrix) {
    matrix.turned = true;
    return matrix;
}

static void product(Pass *pass, Product product) {
    pass_add(pass, PRODUCT)->with.product = product;
}

/* y[rows, out] = x[rows, in] w[out, in]' */
static void layer_forward(Builder *k, float *y, float *x, float *w, int64_t in, int64_t out) {
    product(&k->model->forward, (Product){.c = matrix(y, out),
                                          .a = matrix(x, in),
                                          .b = turned(matrix(w, in)),
                                          .rows = k->r,
                                          .columns = out,
                                          .depth = in,
                                          .outer = 1,
                                          .inner = 1});
}

/* dx = dy w, dw += dy' x */
static void layer_backward(Builder *k, float *dy, float *x, float *w, float *dx, float *dw,
                           int64_t in, int64_t out) {
    product(&k->model->backward, (Product){.c = matrix(dx, in),
                                           .a = matrix(dy, out),
                                           .b = matrix(w, in),
                                           .rows = k->r,
                                           .columns = in,
                                           .depth = out,
                                           .outer = 1,
                                           .inner = 1});
    product(&k->model->backward, (Product){.c = matrix(dw, in),
                                           .a = turned(matrix(dy, out)),
                                           .b = matrix(x, in),
                                           .rows = out,
                                           .columns = in,
                                           .depth = k->r,
                                           .outer = 1,
                                           .inner = 1,
                                           .add = true});
}

/* The heads of all windows: D columns of rows of `width`, from column `first` on. */
static Matrix heads(const Builder *k, float *data, int64_t width, int64_t first) {
    return (Matrix){.data = k->at ? data + first : NULL,
                    .stride = width,
                    .outer_step = k->t * width,
                    .inner_step = k->d};
}

static Matrix squares(const Builder *k, float *data) {
    return (Matrix){.data = data,
                    .stride = k->t,
                    .outer_step = k->heads * k->t * k->t,
                    .inner_step = k->t * k->t};
}

static void heads_product(Builder *k, Pass *pass, Matrix c, Matrix a, Matrix b, bool square) {
    product(pass, (Product){.c = c,
                            .a = a,
                            .b = b,
                            .rows = k->t,
                            .columns = square ? k->t : k->d,
                            .depth = square ? k->d : k->t,
                            .outer = k->b,
                            .inner = k->heads});
}

/* The norm before an attention: of the first layer's input, else of what the layer before adds. */
static void enter_layer(Builder *k, long i) {
    Pass *pass = &k->model->forward;
    const Layer *layer = &k->model->layers[i];
    float *gain = value(k, NORM_1_GAIN, i), *shift = value(k, NORM_1_SHIFT, i);
    if (i == 0)
        CALL(pass, norm, .r = k->r, .c = k->c, .x = layer->x, .gain = gain, .shift = shift,
             .y = layer->y1, .mean = layer->mean1, .rstd = layer->rstd1);
    else
        CALL(pass, add_norm, .r = k->r, .c = k->c, .x = layer[-1].h, .branch = k->branch,
             .bias = value(k, DOWN_BIAS, i - 1), .gain = gain, .shift = shift, .h = layer->x,
             .y = layer->y1, .mean = layer->mean1, .rstd = layer->rstd1);
}

static void layer_calls(Builder *k, long i) {
    Pass *pass = &k->model->forward;
    const Layer *layer = &k->model->layers[i];
    const int64_t r = k->r, c = k->c, t = k->t;
    enter_layer(k, i);
    layer_forward(k, layer->qkv, layer->y1, value(k, QKV, i), c, 3 * c);
    CALL(pass, add_bias, .r = r, .d = 3 * c, .y = layer->qkv, .bias = value(k, QKV_BIAS, i));
    heads_product(k, pass, squares(k, layer->weight), heads(k, layer->qkv, 3 * c, 0),
                  turned(heads(k, layer->qkv, 3 * c, c)), true);
    CALL(pass, attend, .g = k->b * k->heads, .q = t, .k = t, .weight = layer->weight,
         .scale = 1 / sqrtf((float)k->d));
    heads_product(k, pass, heads(k, layer->mixed, c, 0), squares(k, layer->weight),
                  heads(k, layer->qkv, 3 * c, 2 * c), false);
    layer_forward(k, k->branch, layer->mixed, value(k, PROJECT, i), c, c);
    CALL(pass, add_norm, .r = r, .c = c, .x = layer->x, .branch = k->branch,
         .bias = value(k, PROJECT_BIAS, i), .gain = value(k, NORM_2_GAIN, i),
         .shift = value(k, NORM_2_SHIFT, i), .h = layer->h, .y = layer->y2, .mean = layer->mean2,
         .rstd = layer->rstd2);
    layer_forward(k, layer->up, layer->y2, value(k, UP, i), c, 4 * c);
    CALL(pass, activate, .r = r, .d = 4 * c, .up = layer->up, .bias = value(k, UP_BIAS, i),
         .y = layer->hidden);
    layer_forward(k, k->branch, layer->hidden, value(k, DOWN, i), 4 * c, c);
}

static void forward(Builder *k) {
    Model *model = k->model;
    Pass *pass = &model->forward;
    const long count = model->options->layers;
    const int64_t r = k->r, c = k->c;
    CALL(pass, encode, .b = k->b, .t = k->t, .v = model->padded, .c = c, .token = model->token,
         .classes = value(k, CLASSES, 0), .places = value(k, PLACES, 0), .x = model->layers[0].x);
    for (long i = 0; i < count; i++) layer_calls(k, i);
    CALL(pass, add_norm, .r = r, .c = c, .x = model->layers[count - 1].h, .branch = k->branch,
         .bias = value(k, DOWN_BIAS, count - 1), .gain = value(k, NORM_GAIN, 0),
         .shift = value(k, NORM_SHIFT, 0), .h = k->last, .y = k->y, .mean = k->mean,
         .rstd = k->rstd);
    layer_forward(k, k->logits, k->y, value(k, CLASSES, 0), c, model->padded);
    CALL(pass, classify, .r = r, .v = model->classes, .logits = k->logits, .target = model->target,
         .loss = &model->loss);
    if (!pass->failed) pass->calls[pass->count - 1].pitch = model->padded;
}

/* dy, the gradient of a norm's output, is added to dh; bias: of the branch before. */
static void norm_backward(Builder *k, float *h, float *mean, float *rstd, int gain, int shift,
                          long layer, float *dbias) {
    CALL(&k->model->backward, add_norm_backward, .r = k->r, .c = k->c, .h = h,
         .gain = value(k, gain, layer), .mean = mean, .rstd = rstd, .dy = k->dy, .dh = k->dh,
         .dgain = gradient(k, gain, layer), .dshift = gradient(k, shift, layer), .dbias = dbias);
}

static void attention_backward(Builder *k, long i) {
    Pass *pass = &k->model->backward;
    const Layer *layer = &k->model->layers[i];
    const int64_t c = k->c, t = k->t;
    const Matrix dmixed = heads(k, k->dy, c, 0), dscore = squares(k, k->dweight);
    const Matrix q = heads(k, layer->qkv, 3 * c, 0), keys = heads(k, layer->qkv, 3 * c, c);
    layer_backward(k, k->dh, layer->mixed, value(k, PROJECT, i), k->dy, gradient(k, PROJECT, i), c,
                   c);
    heads_product(k, pass, dscore, dmixed, turned(heads(k, layer->qkv, 3 * c, 2 * c)), true);
    heads_product(k, pass, heads(k, k->dqkv, 3 * c, 2 * c), turned(squares(k, layer->weight)),
                  dmixed, false);
    CALL(pass, attend_backward, .g = k->b * k->heads, .q = t, .k = t, .weight = layer->weight,
         .d = k->dweight, .scale = 1 / sqrtf((float)k->d));
    heads_product(k, pass, heads(k, k->dqkv, 3 * c, 0), dscore, keys, false);
    heads_product(k, pass, heads(k, k->dqkv, 3 * c, c), turned(dscore), q, false);
    CALL(pass, add_bias_backward, .r = k->r, .d = 3 * c, .dy = k->dqkv,
         .dbias = gradient(k, QKV_BIAS, i));
    layer_backward(k, k->dqkv, layer->y1, value(k, QKV, i), k->dy, gradient(k, QKV, i), c, 3 * c);
}

static void layer_backward_calls(Builder *k, long i) {
    Pass *pass = &k->model->backward;
    const Layer *layer = &k->model->layers[i];
    const int64_t r = k->r, c = k->c;
    layer_backward(k, k->dh, layer->hidden, value(k, DOWN, i), k->dup, gradient(k, DOWN, i), 4 * c,
                   c);
    CALL(pass, activate_backward, .r = r, .d = 4 * c, .up = layer->up, .bias = value(k, UP_BIAS, i),
         .dup = k->dup, .dbias = gradient(k, UP_BIAS, i));
    layer_backward(k, k->dup, layer->y2, value(k, UP, i), k->dy, gradient(k, UP, i), c, 4 * c);
    norm_backward(k, layer->h, layer->mean2, layer->rstd2, NORM_2_GAIN, NORM_2_SHIFT, i,
                  gradient(k, PROJECT_BIAS, i));
    attention_backward(k, i);
    if (i > 0)
        norm_backward(k, layer->x, layer->mean1, layer->rstd1, NORM_1_GAIN, NORM_1_SHIFT, i,
                      gradient(k, DOWN_BIAS, i - 1));
    else
        CALL(pass, norm_backward, .r = r, .c = c, .h = layer->x, .gain = value(k, NORM_1_GAIN, 0),
             .mean = layer->mean1, .rstd = layer->rstd1, .dy = k->dy, .dh = k->dh,
             .dgain = gradient(k, NORM_1_GAIN, 0), .dshift = gradient(k, NORM_1_SHIFT, 0));
}

static void backward(Builder *k) {
    Model *model = k->model;
    Pass *pass = &model->backward;
    const long count = model->options->layers;
    layer_backward(k, k->logits, k->y, value(k, CLASSES, 0), k->dy, gradient(k, CLASSES, 0), k->c,
                   model->padded);
    CALL(pass, clear, .n = k->r * k->c, .x = k->dh);
    norm_backward(k, k->last, k->mean, k->rstd, NORM_GAIN, NORM_SHIFT, 0,
                  gradient(k, DOWN_BIAS, count - 1));
    for (long i = count - 1; i >= 0; i--) layer_backward_calls(k, i);
    CALL(pass, encode_backward, .b = k->b, .t = k->t, .v = model->padded, .c = k->c,
         .token = model->token, .dx = k->dh, .dclasses = gradient(k, CLASSES, 0),
         .dplaces = gradient(k, PLACES, 0));
}

static bool make_passes(Model *model) {
    const Options *o = model->options;
    Builder k = {.model = model,
                 .b = o->batch,
                 .t = o->context,
                 .r = model->rows,
                 .c = o->channels,
                 .heads = o->heads,
                 .d = o->channels / o->heads};
    lay_out(&k);
    k.at = model->work = zeros(model->work_size = k.used);
    if (!k.at) return fail("out of memory for a batch of %ld windows", o->batch);
    lay_out(&k);
    forward(&k);
    backward(&k);
    CALL(&model->update, update, .t = TENSORS, .n = model->sizes, .p = model->of_value,
         .m = model->of_first, .v = model->of_second, .g = model->of_gradient,
         .decay = model->decay, .count = &model->count, .lr = (float)o->rate);
    return true;
}

bool model_open(Model *model, const Options *options, int classes) {
    *model = (Model){.options = options,
                     .classes = options->classes > classes ? options->classes : classes,
                     .rows = options->batch * options->context,
                     .channels = options->channels};
    model->padded = (model->classes + PADDED_TO - 1) / PADDED_TO * PADDED_TO;
    if (!allocate(model)) return false;
    initialise(model);
    return make_passes(model);
}

void model_close(Model *model) {
    Pass *const passes[] = {&model->forward, &model->backward, &model->update};
    void *const memory[] = {model->values, model->gradients, model->first,  model->second,
                            model->token,  model->target,    model->layers, model->work};
    for (size_t i = 0; i < COUNT(passes); i++) pass_close(passes[i]);
    for (size_t i = 0; i < COUNT(memory); i++) free(memory[i]);
    *model = (Model){0};
}
