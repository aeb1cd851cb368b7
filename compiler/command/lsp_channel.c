/* lsp_channel.c: messages of the base protocol: "Content-Length: N", an empty line, N bytes. */
#include "files.h"
#include "command.h"
#include "advise.h"
#include "lsp.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { HEADER_MAX = 8 << 10, BODY_MAX = 64 << 20, BLOCK = 64 << 10 };
static const char length_field[] = "Content-Length:";

/* Reads what is there; false where nothing comes in that time, or no more. */
static bool fill(Channel *channel, int wait) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char block[BLOCK];
    int ready;
    do ready = poll(&input, 1, wait);
    while (ready < 0 && errno == EINTR);
    if (ready == 0) return false;
    ssize_t got;
    do got = read(STDIN_FILENO, block, sizeof block);
    while (got < 0 && errno == EINTR);
    channel->ended |= got <= 0;
    if (got > 0) buffer_add(&channel->input, block, (size_t)got);
    return got > 0;
}

/* Forgets what was read. */
static void drop(Channel *channel) {
    Buffer *input = &channel->input;
    if (channel->at == 0) return;
    memmove(input->data, input->data + channel->at, input->size - channel->at);
    input->size -= channel->at;
    input->data[input->size] = '\0';
    channel->at = 0;
}

/* Where the header's fields end, behind their empty line; 0: not yet. */
static size_t header_size(const Buffer *input) {
    const char *end = input->size ? strstr(input->data, "\r\n\r\n") : NULL;
    return end ? (size_t)(end - input->data) + 4 : 0;
}

/* Each line of a header is NAME: VALUE, and one says the length. */
static bool read_header(const char *header, size_t size, size_t *length) {
    bool known = false;
    for (const char *line = header, *end = header + size - 2; line < end;) {
        const char *stop = strstr(line, "\r\n");
        const char *colon = memchr(line, ':', (size_t)(stop - line));
        if (!colon) return false;
        if (strncasecmp(line, length_field, sizeof length_field - 1) == 0) {
            char *behind;
            const char *digits = colon + 1 + strspn(colon + 1, " \t");
            const unsigned long long number = strtoull(digits, &behind, 10);
            behind += strspn(behind, " \t");
            if (*digits < '0' || *digits > '9' || behind != stop || number > BODY_MAX) return false;
            *length = (size_t)number;
            known = true;
        }
        line = stop + 2;
    }
    return known;
}

/* To where the next header can begin. */
static void resynchronise(Channel *channel) {
    Buffer *input = &channel->input;
    size_t at = 1;
    while (at < input->size &&
           strncasecmp(input->data + at, length_field, sizeof length_field - 1) != 0)
        at++;
    channel->at = at < input->size ? at : input->size;
    drop(channel);
}

Received channel_read(Channel *channel, int wait, const char **body, size_t *size) {
    drop(channel);
    for (;;) {
        const Buffer *input = &channel->input;
        const size_t header = header_size(input);
        const bool strange = input->size && memchr(input->data, 0, input->size) && !header;
        if (header) {
            if (!read_header(input->data, header, size)) {
                resynchronise(channel);
                return RECEIVED_BROKEN;
            }
            if (input->size - header >= *size) {
                *body = input->data + header;
                channel->at = header + *size;
                return RECEIVED_MESSAGE;
            }
        } else if (input->size > HEADER_MAX || strange) {
            resynchronise(channel);
            return RECEIVED_BROKEN;
        }
        if (channel->ended) return RECEIVED_END;
        if (!fill(channel, wait) && !channel->ended) return RECEIVED_NOTHING;
    }
}

bool channel_write(const Buffer *body) {
    printf("Content-Length: %zu\r\n\r\n", body->size);
    fwrite(body->data, 1, body->size, stdout);
    return fflush(stdout) == 0 && !ferror(stdout);
}

void channel_close(Channel *channel) {
    buffer_free(&channel->input);
}
