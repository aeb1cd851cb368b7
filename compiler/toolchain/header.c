/* header.c: a C header, parsed in the helper process ahead of the library: one that takes for ever
 * is an error and no hang. See libclang.c. */
#include "base/base.h"
#include "target/target.h"
#include "toolchain/toolchain.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add(Text *text, const char *bytes, size_t size) {
    text_add(text, bytes, size);
    text_add(text, "", 1); /* a zero */
}

/* The folder that relative paths begin in: the helper is in the one that it was started in. */
static void add_folder(Text *text) {
    char *folder = getcwd(NULL, 0);
    add(text, folder ? folder : "", folder ? strlen(folder) : 0);
    free(folder);
}

static Text request(Arena *arena, const CHeader *header) {
    const RtcHeader counts = {(uint32_t)header->argument_count, (uint32_t)header->file_count};
    Text text = text_open(arena);
    text_add(&text, (const char *)&counts, sizeof counts);
    add_folder(&text);
    for (size_t i = 0; i < header->argument_count; i++)
        add(&text, header->arguments[i], strlen(header->arguments[i]));
    for (size_t i = 0; i < header->file_count; i++) {
        const uint64_t size = header->files[i].size;
        add(&text, header->files[i].path, strlen(header->files[i].path));
        text_add(&text, (const char *)&size, sizeof size);
        add(&text, header->files[i].text, size);
    }
    return text;
}

const char *rtc_try_header(Compiler *compiler, const CHeader *header) {
    RtcOutput output = {0};
    Arena *arena = arena_child(&compiler->arena);
    const Text text = request(arena, header);
    const RtcJob job = {.verb = RTC_COMPILE,
                        .label = header->path,
                        .target = "`import c`",
                        .source = text.data,
                        .size = text.size};
    const ls_status status =
        rtc_process_run(RTC_TOOLCHAIN_LIBCLANG, header->library, &job, &output);
    arena_close(arena);
    const char *reason =
        status == LS_OK ? NULL
                        : arena_printf(&compiler->arena, "%s",
                                       output.log && *output.log ? output.log : "out of memory");
    rtc_output_free(&output);
    return reason;
}
