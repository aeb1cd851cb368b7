/* tape.c: the device, its memory, and lists of launches and matrix products. */
#include "charlm.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool machine_check(Machine *machine, ls_status status, const char *what) {
    if (status == LS_OK) return true;
    if (!machine->failed) fail("%s: %s", what, ls_error_message(machine->context));
    machine->failed = true;
    return false;
}

bool machine_all_failed(Machine *machine, ls_status status, const char *what) {
    const char *message = ls_error_message(machine->context), *words = strstr(message, ": ");
    if (status == LS_ERROR_COMM) return machine_check(machine, status, what);
    return ls_comm_rank(machine->comm) == 0 && fail("%s: %s", what, words ? words + 2 : message);
}

static bool out_of_memory(Machine *machine) {
    if (!machine->failed) fail("out of host memory");
    machine->failed = true;
    return false;
}

/* Grows an array of `size`-byte elements so that one more fits. */
static bool grow(void **array, size_t count, size_t *capacity, size_t size) {
    if (count < *capacity) return true;
    const size_t larger = *capacity ? 2 * *capacity : 64;
    void *grown = realloc(*array, larger * size);
    if (!grown) return false;
    *array = grown;
    *capacity = larger;
    return true;
}

/* The program's text; for f32 and f16 with that type in place of bf16. */
static char *read_program(const char *type) {
    FILE *file = fopen(CHARLM_STEP, "rb");
    char *text = calloc(1, 1 << 16);
    size_t size = file && text ? fread(text, 1, (1 << 16) - 1, file) : 0;
    if (size == 0) fail("%s cannot be read: %s", CHARLM_STEP, strerror(errno));
    if (file) fclose(file);
    if (size == 0) {
        free(text);
        return NULL;
    }
    if (strcmp(type, "bf16") != 0)
        for (char *at = text; (at = strstr(at, "bf16")) != NULL; at += 4) {
            *at = ' ';
            memcpy(at + 1, type, 3);
        }
    return text;
}

static void load_program(Machine *machine, const char *text, double dropout, ls_program **program) {
    char define[64];
    snprintf(define, sizeof define, "dropout=%.17g", dropout);
    const char *const defines[] = {define};
    const ls_compile_options options = {.defines = defines, .define_count = 1};
    machine_check(
        machine,
        ls_program_load_text(machine->context, CHARLM_STEP, text, strlen(text), &options, program),
        "reading charlm.step");
}

/* Where a driver has no graphs to rely on, Lockstep replays its own launches, but products would
 * not be among them. An empty graph tells. */
static void look_for_graphs(Machine *machine) {
    ls_graph *graph = NULL;
    ls_graph_statistics statistics = {0};
    if (machine_check(machine, ls_graph_begin(machine->context), "beginning a graph") &&
        machine_check(machine, ls_graph_end(machine->context, &graph), "making a graph"))
        machine_check(machine, ls_graph_stats(graph, &statistics), "looking at a graph");
    if (graph) ls_graph_destroy(graph);
    machine->graphs = statistics.native;
}

/* Of several devices of a kind each rank takes one, where none is named by its number. */
static const char *device_for(const char *device, const Ranks *ranks, char *text, size_t size) {
    ls_device_info devices[64];
    const size_t found = ls_devices(devices, COUNT(devices));
    int count = 0;
    if (ranks->size == 1 || !device || (strcmp(device, "cuda") != 0 && strcmp(device, "hip") != 0))
        return device;
    for (size_t i = 0; i < found && i < COUNT(devices); i++)
        count += devices[i].usable && strncmp(devices[i].name, device, strlen(device)) == 0;
    snprintf(text, size, "%s:%d", device, count > 0 ? ranks->local % count : 0);
    return text;
}

static bool open_ranks(Machine *machine, const char *engine, const Ranks *ranks) {
    ls_comm_options options = {.rank = ranks->rank, .size = ranks->size, .id = &ranks->id};
    if (ranks->launched) options = (ls_comm_options){0};
    return machine_check(machine,
                         ls_comm_create(machine->context, engine, &options, &machine->comm),
                         "joining the other ranks");
}

/* A terminal sees which step is compiled: where none is in the cache it takes a while. */
static void tell(Machine *machine, const char *name) {
    if (machine->tells) fprintf(stderr, "\rstep %zu: %-24.24s", ++machine->prepared, name);
}

void machine_told(Machine *machine) {
    if (machine->tells && machine->prepared) fprintf(stderr, "\r%*s\r", 40, "");
    machine->tells = false;
}

bool machine_open(Machine *machine, const Options *options, const Ranks *ranks) {
    *machine = (Machine){.tells = isatty(STDERR_FILENO) && (!ranks || ranks->size <= 1)};
    char name[32];
    const char *device = device_for(options->device, ranks, name, sizeof name);
    if (!machine_check(machine, ls_context_create(device, NULL, &machine->context),
                       "opening the device") ||
        !open_ranks(machine, options->comm, ranks))
        return false;
    if (options->memory > 0 &&
        !machine_check(machine, ls_memory_limit(machine->context, (uint64_t)options->memory << 20),
                       "limiting memory"))
        return false;
    char *text = read_program(options->type);
    if (!text) return false;
    load_program(machine, text, options->dropout, &machine->training);
    load_program(machine, text, 0, &machine->plain);
    free(text);
    look_for_graphs(machine);
    if (!machine->failed && !products_open(machine->context, options->blas, &machine->products))
        machine->failed = true;
    return !machine->failed;
}

void machine_close(Machine *machine) {
    if (machine->products) products_close(machine->products);
    if (machine->training) ls_program_destroy(machine->training);
    if (machine->plain) ls_program_destroy(machine->plain);
    for (size_t i = 0; i < machine->memory_count; i++)
        ls_free(machine->context, machine->memory[i]);
    free(machine->memory);
    ls_comm_destroy(machine->comm);
    ls_context_destroy(machine->context);
    *machine = (Machine){0};
}

Array array_slice(Array array, int64_t first, int64_t count) {
    Array slice = {.type = array.type, .rank = 1, .shape = {count}};
    if (array.data) slice.data = (char *)array.data + first * (int64_t)ls_type_size(array.type);
    return slice;
}

int64_t array_size(Array array) {
    int64_t size = 1;
    for (uint32_t i = 0; i < array.rank; i++) size *= array.shape[i];
    return size;
}

Array array_as(Array array, uint32_t rank, const int64_t *shape) {
    array.rank = rank;
    for (uint32_t i = 0; i < rank; i++) array.shape[i] = shape[i];
    return array;
}

static size_t array_bytes(Array array) {
    return (size_t)array_size(array) * ls_type_size(array.type);
}

Array machine_array(Machine *machine, ls_type type, uint32_t rank, const int64_t *shape) {
    Array array = array_as((Array){.type = type}, rank, shape);
    if (machine->failed) return array;
    if (!machine->counts && !grow((void **)&machine->memory, machine->memory_count,
                                  &machine->memory_capacity, sizeof *machine->memory)) {
        out_of_memory(machine);
        return array;
    }
    const size_t bytes = array_bytes(array) ? array_bytes(array) : 1;
    if (machine->counts) {
        machine->bytes += bytes;
        return array;
    }
    if (!machine_check(machine, ls_alloc(machine->context, bytes, &array.data),
                       "allocating device memory"))
        return array;
    machine->memory[machine->memory_count++] = array.data;
    machine->bytes += bytes;
    machine_check(machine, ls_fill_zero(machine->context, array.data, bytes),
                  "clearing device memory");
    return array;
}

void array_write(Machine *machine, Array array, const void *values) {
    if (machine->failed) return;
    if (array.on_host) {
        memcpy(array.data, values, array_bytes(array));
        return;
    }
    machine_check(machine, ls_copy_in(machine->context, array.data, values, array_bytes(array)),
                  "copying to the device");
}

void array_read(Machine *machine, Array array, void *values) {
    if (machine->failed) return;
    if (array.on_host) {
        memcpy(values, array.data, array_bytes(array));
        return;
    }
    machine_check(machine, ls_copy_out(machine->context, values, array.data, array_bytes(array)),
                  "copying from the device");
}

static ls_tensor tensor_of(const Array *array) {
    return (ls_tensor){
        .data = array->data, .type = array->type, .rank = array->rank, .shape = array->shape};
}

static ls_status bind_list(ls_step *step, const Argument *argument) {
    ls_tensor *tensors = calloc(argument->count, sizeof *tensors);
    if (!tensors) return LS_ERROR_MEMORY;
    for (size_t i = 0; i < argument->count; i++) tensors[i] = tensor_of(&argument->list[i]);
    ls_status status = ls_step_bind_list(step, argument->name, tensors, argument->count);
    free(tensors);
    return status;
}

static ls_status bind_sum(ls_step *step, const Argument *argument) {
    const size_t count = argument->count, parts = argument->part_count;
    ls_tensor *tensors = calloc(count * parts + 1, sizeof *tensors);
    const ls_tensor **lists = calloc(parts, sizeof *lists);
    ls_status status = LS_ERROR_MEMORY;
    for (size_t k = 0; tensors && lists && k < parts; k++) {
        lists[k] = tensors + k * count;
        for (size_t i = 0; i < count; i++)
            tensors[k * count + i] = tensor_of(&argument->parts[k][i]);
    }
    if (tensors && lists) status = ls_step_bind_sum_list(step, argument->name, lists, parts, count);
    free(tensors);
    free(lists);
    return status;
}

static ls_status bind(ls_step *step, const Argument *argument) {
    if (argument->parts) return bind_sum(step, argument);
    if (argument->list) return bind_list(step, argument);
    if (!argument->array.data) return ls_step_set_number(step, argument->name, argument->number);
    const ls_tensor tensor = tensor_of(&argument->array);
    return ls_step_bind(step, argument->name, &tensor);
}

static Operation *append(Machine *machine, Tape *tape) {
    if (!grow((void **)&tape->operations, tape->count, &tape->capacity, sizeof *tape->operations)) {
        out_of_memory(machine);
        return NULL;
    }
    Operation *operation = &tape->operations[tape->count++];
    *operation = (Operation){0};
    return operation;
}

ls_step *tape_step(Machine *machine, ls_program *program, Tape *tape, const char *name,
                   const Argument *arguments, size_t count) {
    return tape_step_on_parts(machine, program, tape, name, arguments, count, NULL);
}

ls_step *tape_step_on_parts(Machine *machine, ls_program *program, Tape *tape, const char *name,
                            const Argument *arguments, size_t count,
                            const ls_partition_parts *parts) {
    Operation *operation = machine->failed || machine->counts ? NULL : append(machine, tape);
    if (!operation ||
        !machine_check(machine, ls_step_create(program, name, &operation->step), name))
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (!machine_check(machine, bind(operation->step, &arguments[i]), arguments[i].name))
            return NULL;
    tell(machine, name);
    if (parts &&
        !machine_check(machine, ls_step_partition(operation->step, machine->comm, parts), name))
        return NULL;
    if (!machine_check(machine, ls_step_prepare(operation->step), name)) return NULL;
    return operation->step;
}

void tape_product(Machine *machine, Tape *tape, Product product) {
    Operation *operation = machine->failed || machine->counts ? NULL : append(machine, tape);
    if (!operation) return;
    operation->product = malloc(sizeof product); /* where it stays */
    if (!operation->product) {
        out_of_memory(machine);
        return;
    }
    *operation->product = product;
    if (!product_prepare(machine->products, operation->product)) machine->failed = true;
}

/* ---- what goes between the ranks ---- */

struct Transfer {
    ls_comm_part *send, *receive; /* send NULL: all are to have what each has in receive; */
    ls_comm_piece *pieces;
    bool begins, waits; /* waits: that is all, and both are NULL */
};

static size_t count_pieces(const Lot *lots, int count) {
    size_t pieces = 0;
    for (int rank = 0; lots && rank < count; rank++) pieces += lots[rank].count;
    return pieces;
}

static ls_comm_piece *fill_parts(ls_comm_part *parts, ls_comm_piece *pieces, const Lot *lots,
                                 int count) {
    for (int rank = 0; rank < count; rank++) {
        parts[rank] = (ls_comm_part){pieces, lots[rank].count};
        for (size_t i = 0; i < lots[rank].count; i++) {
            const Array *array = &lots[rank].arrays[i];
            *pieces++ = (ls_comm_piece){array->data, array_bytes(*array)};
        }
    }
    return pieces;
}

static void transfer_free(Transfer *transfer) {
    if (!transfer) return;
    free(transfer->send);
    free(transfer->receive);
    free(transfer->pieces);
    free(transfer);
}

static Transfer *append_transfer(Machine *machine, Tape *tape) {
    Operation *operation = machine->failed ? NULL : append(machine, tape);
    if (!operation) return NULL;
    operation->transfer = calloc(1, sizeof *operation->transfer);
    if (!operation->transfer) out_of_memory(machine);
    return operation->transfer;
}

static Transfer *add_transfer(Machine *machine, Tape *tape, const Lot *send, const Lot *receive) {
    const int size = ls_comm_size(machine->comm);
    Transfer *transfer = append_transfer(machine, tape);
    if (!transfer) return NULL;
    transfer->pieces = calloc(count_pieces(send, size) + count_pieces(receive, size) + 1,
                              sizeof *transfer->pieces);
    transfer->receive = calloc((size_t)size, sizeof *transfer->receive);
    if (send) transfer->send = calloc((size_t)size, sizeof *transfer->send);
    if (!transfer->pieces || !transfer->receive || (send && !transfer->send)) {
        out_of_memory(machine);
        return NULL;
    }
    ls_comm_piece *next = fill_parts(transfer->receive, transfer->pieces, receive, size);
    if (send) fill_parts(transfer->send, next, send, size);
    return transfer;
}

void tape_transfer(Machine *machine, Tape *tape, const Lot *send, const Lot *receive) {
    add_transfer(machine, tape, send, receive);
}

void tape_begin_transfer(Machine *machine, Tape *tape, const Lot *send, const Lot *receive) {
    Transfer *transfer = add_transfer(machine, tape, send, receive);
    if (transfer) transfer->begins = true;
}

void tape_wait(Machine *machine, Tape *tape) {
    Transfer *transfer = append_transfer(machine, tape);
    if (transfer) transfer->waits = true;
}

static ls_status transfer_run(Machine *machine, const Transfer *transfer) {
    if (transfer->waits) return ls_comm_wait(machine->comm);
    if (transfer->begins)
        return ls_comm_begin_all_to_all(machine->comm, transfer->send, transfer->receive);
    if (!transfer->send) return ls_comm_all_gather(machine->comm, transfer->receive);
    return ls_comm_all_to_all(machine->comm, transfer->send, transfer->receive);
}

bool tape_run(Machine *machine, const Tape *tape) {
    for (size_t i = 0; i < tape->count && !machine->failed; i++) {
        const Operation *operation = &tape->operations[i];
        if (operation->step)
            machine_check(machine, ls_step_launch(operation->step), "launching a step");
        else if (operation->transfer)
            machine_check(machine, transfer_run(machine, operation->transfer),
                          "exchanging with the other ranks");
        else if (!product_run(operation->product))
            machine->failed = true;
    }
    return !machine->failed;
}

void tape_close(Tape *tape) {
    for (size_t i = 0; i < tape->count; i++) {
        if (tape->operations[i].step) ls_step_destroy(tape->operations[i].step);
        if (tape->operations[i].product) product_close(tape->operations[i].product);
        free(tape->operations[i].product);
        transfer_free(tape->operations[i].transfer);
    }
    free(tape->operations);
    *tape = (Tape){0};
}
