/* captured_rename.c: programs called otherwise. See captured.h. */
#include "captured.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "fuse/fuse.h"
#include "emit/emit.h"

#include "batch.h"

const char *const captured_roles[ROLES] = {"axes",      "parameters", "lets",
                                           "functions", "steps",      "imports"};
enum { AXIS, PARAMETER, LET, FUNCTION, STEP, IMPORT };

size_t captured_cursors[ROLES];

static Slot *find_slot(Renamed *r, const char *word, size_t size) {
    for (size_t i = 0; i < r->count; i++)
        if (strncmp(r->slots[i].name, word, size) == 0 && r->slots[i].name[size] == 0)
            return &r->slots[i];
    return NULL;
}

static void add_slot(Renamed *r, const Token *token, int role) {
    if (!token->name || token->size >= sizeof r->slots[0].name || r->count == SLOTS_MAX) return;
    if (find_slot(r, token->text, token->size)) return;
    Slot *slot = &r->slots[r->count++];
    memcpy(slot->name, token->text, token->size);
    slot->role = role;
}

static bool is(const Token *token, const char *text) {
    return token->size == strlen(text) && memcmp(token->text, text, token->size) == 0;
}

/* What the program declares. */
static void find_slots(Renamed *r, const char *text) {
    Token token, before = {"", 0, false};
    int inside = -1; /* the role of names until the list ends */
    char end = 0;
    while (step_token_next(&text, &token)) {
        const char *rest = text;
        Token next;
        const bool typed = step_token_next(&rest, &next) && is(&next, ":");
        if (inside == STEP || inside == FUNCTION) {
            add_slot(r, &token, inside);
            inside = inside == STEP ? (is(&next, "[") ? AXIS : -1) : LET;
            end = inside == AXIS ? ']' : ')';
        } else if (inside >= 0 && token.size == 1 && *token.text == end) {
            inside = -1;
        } else if (inside >= 0 && !is(&token, "of") && !is(&token, "as")) {
            add_slot(r, &token, inside);
        } else if (token.name && typed) {
            add_slot(r, &token, PARAMETER);
        } else if (is(&token, "step") || is(&token, "fn")) {
            inside = is(&token, "fn") ? FUNCTION : STEP;
        } else if (is(&token, "let")) {
            inside = LET, end = '=';
        } else if (is(&before, "const")) {
            add_slot(r, &token, LET);
        } else if (is(&before, "as")) {
            add_slot(r, &token, IMPORT);
        }
        before = token;
    }
}

/* A name that nothing is made of but itself. */
static void make_plain(Slot *slot, size_t number, const Renamed *r) {
    do snprintf(slot->plain, sizeof slot->plain, "q%zuz", number), number += SLOTS_MAX;
    while (!names_is_plain(slot->plain) || in_words(&r->others, slot->plain, strlen(slot->plain)));
}

/* What the emitter may make of an earlier name of the program. */
static const char *make_derived(const Renamed *r, size_t number, size_t tries) {
    static size_t turn;
    static char name[200];
    const char *stem = r->slots[number - 1 - (tries + turn) % 3].nasty;
    if (!names_suffix(++turn)) turn = 0;
    const char *suffix = names_suffix(turn);
    snprintf(name, sizeof name, "%s_%.*s", stem, (int)strcspn(suffix, " "), suffix);
    if (turn % 8 == 0) snprintf(name, sizeof name, "size_%s", stem);
    if (turn % 8 == 4) snprintf(name, sizeof name, "%s_2", stem);
    return name;
}

static void choose_names(Renamed *r, const Words *pool) {
    Words taken = {NULL, 0, 0};
    for (size_t i = 0; i < r->count; i++) {
        Slot *slot = &r->slots[i];
        const char *name;
        size_t tries = 0;
        do
            if (i % 4 == 3 && tries < 40)
                name = make_derived(r, i, tries);
            else if (i % 4 && tries < r->own->words.count)
                name = r->own->words.list[r->own->cursor++ % r->own->words.count];
            else
                name = pool->list[captured_cursors[slot->role]++ % pool->count];
        while (++tries < pool->count &&
               (in_words(&r->others, name, strlen(name)) || in_words(&taken, name, strlen(name)) ||
                strlen(name) >= sizeof slot->nasty - 4));
        add_word(&taken, name, strlen(name));
        snprintf(slot->nasty, sizeof slot->nasty, "%s", name);
        make_plain(slot, i, r);
    }
    for (size_t i = 0; i < taken.count; i++) free(taken.list[i]);
    free(taken.list);
}

/* Comments too: they say which sizes the axes have. */
char *rename_text(Renamed *r, const char *text, bool nasty) {
    char *result = NULL;
    size_t size;
    FILE *out = open_memstream(&result, &size);
    while (*text) {
        Token word = {text, word_size(text), true};
        const bool member = word.size && text[-1] == '.';
        const bool directive = word.size && begins(text - 2, "# ") && text[word.size] == ':';
        const Slot *slot =
            word.size && !member && !directive ? find_slot(r, text, word.size) : NULL;
        const size_t skipped = word.size ? word.size : number_size(text);
        if (slot)
            fputs(nasty ? slot->nasty : slot->plain, out);
        else
            fwrite(text, 1, skipped ? skipped : 1, out);
        text += skipped ? skipped : 1;
    }
    fclose(out);
    return result;
}

Renamed *rename_program(const char *text, const Words *pool, Own *own) {
    Renamed *r = must_allocate(sizeof *r);
    r->own = own;
    find_slots(r, text);
    for (const char *at = text; *at;) {
        const size_t size = word_size(at), skipped = size ? size : number_size(at);
        if (size && !find_slot(r, at, size)) add_word(&r->others, at, size);
        at += skipped ? skipped : 1;
    }
    choose_names(r, pool);
    return r;
}

void rename_drop(Renamed *r) {
    for (size_t i = 0; i < r->others.count; i++) free(r->others.list[i]);
    free(r->others.list);
    free(r);
}
