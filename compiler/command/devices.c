/* devices.c: `lockstep devices`: what there is to run on, and why the rest is not. */
#include "files.h"
#include "command.h"

typedef struct Options {
    bool json;
} Options;

static void print_row(bool usable, const char *name, const char *text) {
    bool color = color_wanted(stdout);
    printf("  %s%-8s%s %s\n", color ? usable ? "\033[32m" : "\033[33m" : "", name,
           color ? "\033[0m" : "", text);
}

static void print_text(const ls_device_info *devices, size_t count) {
    printf("Devices\n");
    for (size_t i = 0; i < count; i++)
        print_row(devices[i].usable, devices[i].name, devices[i].description);
    printf("Toolchains\n");
    for (size_t i = 0; ls_toolchain_at(i, NULL); i++) {
        char text[512] = "";
        int usable = ls_toolchain_describe(ls_toolchain_at(i, NULL), text, sizeof text);
        print_row(usable, ls_toolchain_at(i, NULL), text);
    }
}

static void print_json(const ls_device_info *devices, size_t count) {
    JsonWriter json = {0};
    json_open(&json, NULL, '{');
    json_open(&json, "devices", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(&json, NULL, '{');
        json_string(&json, "name", devices[i].name);
        json_boolean(&json, "usable", devices[i].usable);
        json_string(&json, "description", devices[i].description);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_open(&json, "toolchains", '[');
    const char *name, *device;
    for (size_t i = 0; (name = ls_toolchain_at(i, &device)); i++) {
        char text[512] = "", purpose[64];
        int usable = ls_toolchain_describe(name, text, sizeof text);
        snprintf(purpose, sizeof purpose, "compiles kernels for %s", device);
        json_open(&json, NULL, '{');
        json_string(&json, "name", name);
        json_string(&json, "purpose", purpose);
        json_boolean(&json, "usable", usable);
        json_string(&json, "description", text);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    fputs(json.text.data, stdout);
    buffer_free(&json.text);
}

static int run(const Invocation *invocation) {
    enum { DEVICES_MAX = 64 };
    const Options *options = invocation->options;
    ls_device_info devices[DEVICES_MAX];
    if (invocation->argument_count)
        return usage_error(invocation->command, "unexpected argument '%s'",
                           invocation->arguments[0]);
    size_t count = ls_devices(devices, DEVICES_MAX);
    if (count > DEVICES_MAX) count = DEVICES_MAX;
    (options->json ? print_json : print_text)(devices, count);
    return STATUS_DONE;
}

static const Option devices_options[] = {
    {0, "json", NULL, OPTION_FLAG, offsetof(Options, json), "the same as JSON"},
};

const Command command_devices = {
    .name = "devices",
    .summary = "lists the devices, and why a backend is not usable",
    .arguments = "",
    .examples = "  lockstep devices",
    .options = devices_options,
    .option_count = COUNT(devices_options),
    .options_size = sizeof(Options),
    .run = run,
};
