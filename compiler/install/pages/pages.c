/* pages.c: build tool: pages TEMPLATES OUT. Writes the manual pages (OUT/man1), the completions of
 * bash, zsh and fish and the tables of READMEs from the tables that the command itself reads. The
 * texts around what is written are the files of TEMPLATES, where @name@ is a substitution;
 * pages_man.c and pages_shells.c fill them. */
#include "files.h"
#include "command.h"
#include "pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const Substitution *const substitution_lists[] = {man_substitutions, shell_substitutions};

static void version(FILE *out, const Command *command) {
    (void)command;
    fputs(ls_version(), out);
}
static const Substitution version_substitution = {"version", version};

static const Substitution *find_substitution(const char *name, size_t size) {
    if (size == strlen(version_substitution.name) &&
        memcmp(name, version_substitution.name, size) == 0)
        return &version_substitution;
    for (size_t i = 0; i < COUNT(substitution_lists); i++)
        for (const Substitution *substitution = substitution_lists[i]; substitution->name;
             substitution++)
            if (strlen(substitution->name) == size && memcmp(substitution->name, name, size) == 0)
                return substitution;
    return NULL;
}

/* The template with every @name@ filled; a @ that begins no name stays. */
static bool fill(const char *text, FILE *out, const Command *command) {
    for (const char *at = text; *at;) {
        const size_t size = *at == '@' ? strspn(at + 1, "abcdefghijklmnopqrstuvwxyzNAME_") : 0;
        if (!size || at[size + 1] != '@') {
            putc(*at++, out);
            continue;
        }
        const Substitution *substitution = find_substitution(at + 1, size);
        if (!substitution) {
            fprintf(stderr, "pages: nothing is put for @%.*s@\n", (int)size, at + 1);
            return false;
        }
        substitution->fill(out, command);
        at += size + 2;
    }
    return true;
}

static bool page(const char *templates, const char *template, const char *folder, const char *name,
                 const Command *command) {
    Failure failure = {0};
    Buffer from = {0}, to = {0};
    char *text = NULL;
    size_t size;
    buffer_printf(&from, "%s/%s", templates, template);
    buffer_printf(&to, "%s/%s", folder, name);
    bool good = file_read(from.data, &text, &size, &failure);
    if (!good) report(&failure);
    FILE *out = good ? fopen(to.data, "wb") : NULL;
    if (good && !out) fprintf(stderr, "pages: cannot write %s: %s\n", to.data, strerror(errno));
    good = out && fill(text, out, command);
    if (out && fclose(out) != 0) good = false;
    free(text);
    buffer_free(&from);
    buffer_free(&to);
    return good;
}

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "usage: pages SKELETONS OUT\n");
        return 2;
    }
    const char *in = words[1], *out = words[2];
    Buffer manual = {0};
    buffer_printf(&manual, "%s/man1", out);
    mkdir(out, 0777); /* where it cannot be made, no file in it can */
    mkdir(manual.data, 0777);
    bool good = page(in, "lockstep.1.in", manual.data, "lockstep.1", NULL) &&
                page(in, "lockstep.bash.in", out, "lockstep.bash", NULL) &&
                page(in, "_lockstep.in", out, "_lockstep", NULL) &&
                page(in, "lockstep.fish.in", out, "lockstep.fish", NULL) &&
                page(in, "environment.md.in", out, "environment.md", NULL) &&
                page(in, "targets.md.in", out, "targets.md", NULL);
    for (size_t i = 0; good && command_at(i); i++) {
        Buffer name = {0};
        buffer_printf(&name, "lockstep-%s.1", command_at(i)->name);
        good = page(in, "lockstep-command.1.in", manual.data, name.data, command_at(i));
        buffer_free(&name);
    }
    buffer_free(&manual);
    return good ? 0 : 1;
}
