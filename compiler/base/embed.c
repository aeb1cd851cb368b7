/* embed.c: build tool. Writes the template files as C arrays: embed OUTPUT ROOT FILE...; or any one
 * file as an array and its size: embed OUTPUT --bytes NAME FOLDER FILE */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int copy_bytes(FILE *out, const char *root, const char *path) {
    char name[4096];
    snprintf(name, sizeof name, "%s/%s", root, path);
    FILE *in = fopen(name, "rb");
    if (!in) {
        fprintf(stderr, "embed: cannot read %s\n", name);
        return 0;
    }
    int byte, column = 0;
    while ((byte = getc(in)) != EOF) {
        fprintf(out, "%d,", byte);
        if (++column % 32 == 0) putc('\n', out);
    }
    fclose(in);
    return 1;
}

static int write_bytes(FILE *out, const char *name, const char *folder, const char *file) {
    fprintf(out,
            "/* Generated from %s by embed.c. */\n#include <stddef.h>\n"
            "extern const unsigned char %s[];\nextern const size_t %s_size;\n"
            "const unsigned char %s[] = {\n",
            file, name, name, name);
    if (!copy_bytes(out, folder, file)) return 0;
    fprintf(out, "};\nconst size_t %s_size = sizeof %s;\n", name, name);
    return 1;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    FILE *out = fopen(words[1], "wb");
    if (!out) {
        fprintf(stderr, "embed: cannot write %s\n", words[1]);
        return 1;
    }
    if (count == 6 && strcmp(words[2], "--bytes") == 0) {
        int written = write_bytes(out, words[3], words[4], words[5]);
        return fclose(out) == 0 && written ? 0 : 1;
    }
    fputs("/* Generated from templates/ by embed.c. */\n#include \"base/base.h\"\n#include "
          "<string.h>\n",
          out);
    for (int i = 3; i < count; i++) {
        fprintf(out, "extern const unsigned char embedded_file_%d[];\n", i - 3);
        fprintf(out, "const unsigned char embedded_file_%d[] = {\n", i - 3);
        if (!copy_bytes(out, words[2], words[i])) {
            fclose(out);
            return 1;
        }
        fputs("0};\n", out);
    }
    fputs("const EmbeddedFile embedded_files[] = {\n", out);
    for (int i = 3; i < count; i++)
        fprintf(out, "    {\"%s\", (const char *)embedded_file_%d, sizeof embedded_file_%d - 1},\n",
                words[i], i - 3, i - 3);
    fputs("    {0}};\n", out);
    fprintf(out, "const size_t embedded_file_count = %d;\n", count - 3);
    fputs("const char *embedded_text(const char *path) {\n"
          "    for (size_t i = 0; i < embedded_file_count; i++)\n"
          "        if (strcmp(embedded_files[i].path, path) == 0) return embedded_files[i].text;\n"
          "    return NULL;\n}\n",
          out);
    return fclose(out) == 0 ? 0 : 1;
}
