/* host_limits.c: what of the machine this process may have: its memory and its processors, as the
 * kernel and the control groups (containers, systemd's slices) that the process is in allow. */
#include "runtime.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* A file's first line under the root, without its end. */
static bool read_line(char *text, size_t size, const char *root, const char *path) {
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s%s", root, path);
    FILE *file = fopen(name, "re");
    if (!file) return false;
    const bool read = fgets(text, (int)size, file) != NULL;
    fclose(file);
    if (read) text[strcspn(text, "\n")] = 0;
    return read;
}

/* The number behind a word that begins a line: "MemTotal:" of meminfo, "inactive_file" of a group's
 * memory.stat. */
static bool read_entry(uint64_t *value, const char *root, const char *path, const char *word) {
    char name[PATH_MAX], line[256];
    const size_t size = strlen(word);
    unsigned long long number;
    bool found = false;
    snprintf(name, sizeof name, "%s%s", root, path);
    FILE *file = fopen(name, "re");
    while (file && !found && fgets(line, sizeof line, file))
        found = strncmp(line, word, size) == 0 && sscanf(line + size, " %llu", &number) == 1;
    if (file) fclose(file);
    if (found) *value = number;
    return found;
}

static bool read_number(uint64_t *value, const char *root, const char *folder, const char *name) {
    char path[PATH_MAX], text[64];
    unsigned long long number;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!read_line(text, sizeof text, root, path) || sscanf(text, "%llu", &number) != 1)
        return false; /* "max" too */
    *value = number;
    return true;
}

/* The two layouts of control groups. */
typedef struct GroupLayout {
    const char *mount, *controller; /* of a line of /proc/self/cgroup; "": all, version 2 */
    const char *limit, *usage, *cached;
} GroupLayout;
static const GroupLayout memory_layouts[] = {
    {"/sys/fs/cgroup", "", "memory.max", "memory.current", "inactive_file"},
    {"/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file"}};
static const GroupLayout processor_layouts[] = {
    {"/sys/fs/cgroup", "", NULL, NULL, NULL},
    {"/sys/fs/cgroup/cpu", "cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us", NULL}};

/* Whether a line "4:cpu,cpuacct:/path" is of a controller; *path is then where the path begins. */
static bool is_of(const char *line, const char *controller, const char **path) {
    const size_t size = strlen(controller);
    const char *at = strchr(line, ':'), *end = at ? strchr(at + 1, ':') : NULL;
    if (!end) return false;
    *path = end + 1;
    while (at < end) {
        const size_t word = strcspn(++at, ",:");
        if (word == size && memcmp(at, controller, size) == 0) return true;
        at += word;
    }
    return false;
}

/* The folder of the process's group in one of the layouts; false: it is in none. */
static bool find_group(char *folder, size_t size, const char *root, const GroupLayout *layout) {
    char name[PATH_MAX], line[PATH_MAX];
    bool found = false;
    snprintf(name, sizeof name, "%s/proc/self/cgroup", root);
    FILE *file = fopen(name, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *path;
        line[strcspn(line, "\n")] = 0;
        found = is_of(line, layout->controller, &path);
        if (found) snprintf(folder, size, "%s%s", layout->mount, path);
    }
    if (file) fclose(file);
    return found;
}

/* From a group to the one around it; false: it was the outermost. Seen from inside a container the
 * path may be one of outside, of which only the mount itself is there. */
static bool go_up(char *folder, const GroupLayout *layout) {
    const size_t mount = strlen(layout->mount);
    char *slash = strrchr(folder + mount, '/');
    if (!slash) return false;
    *slash = 0;
    return true;
}

/* The least of what the group and those around it leave. What they cache of files can be had. */
static void limit_memory(const char *root, const GroupLayout *layout, uint64_t *free_bytes,
                         uint64_t *total_bytes) {
    char folder[PATH_MAX], path[PATH_MAX];
    if (!find_group(folder, sizeof folder, root, layout)) return;
    do {
        uint64_t limit, used = 0, cached = 0;
        if (!read_number(&limit, root, folder, layout->limit)) continue;
        read_number(&used, root, folder, layout->usage);
        snprintf(path, sizeof path, "%.4000s/memory.stat", folder);
        read_entry(&cached, root, path, layout->cached);
        used -= cached < used ? cached : used;
        const uint64_t left = used < limit ? limit - used : 0;
        if (limit < *total_bytes) *total_bytes = limit;
        if (left < *free_bytes) *free_bytes = left;
    } while (go_up(folder, layout));
}

bool limits_memory(const char *root, uint64_t *free_bytes, uint64_t *total_bytes) {
    uint64_t total, available;
    if (!read_entry(&total, root, "/proc/meminfo", "MemTotal:") ||
        (!read_entry(&available, root, "/proc/meminfo", "MemAvailable:") &&
         !read_entry(&available, root, "/proc/meminfo", "MemFree:")))
        return false;
    *total_bytes = total * 1024;
    *free_bytes = available * 1024;
    for (size_t i = 0; i < COUNT(memory_layouts); i++)
        limit_memory(root, &memory_layouts[i], free_bytes, total_bytes);
    return true;
}

/* "200000 100000", or "max 100000", in one file; in the older layout in two. */
static bool read_quota(const char *root, const GroupLayout *layout, const char *folder,
                       uint64_t *quota, uint64_t *period) {
    char path[PATH_MAX], text[64];
    unsigned long long used, of;
    if (layout->limit) /* -1: none */
        return read_number(quota, root, folder, layout->limit) && *quota <= INT64_MAX &&
               read_number(period, root, folder, layout->usage) && *period;
    snprintf(path, sizeof path, "%.4000s/cpu.max", folder);
    if (!read_line(text, sizeof text, root, path) || sscanf(text, "%llu %llu", &used, &of) != 2 ||
        of == 0)
        return false;
    *quota = used;
    *period = of;
    return true;
}

uint32_t limits_processors(const char *root) {
    uint64_t least = 0;
    for (size_t i = 0; i < COUNT(processor_layouts); i++) {
        const GroupLayout *layout = &processor_layouts[i];
        char folder[PATH_MAX];
        if (!find_group(folder, sizeof folder, root, layout)) continue;
        do {
            uint64_t quota, period;
            if (!read_quota(root, layout, folder, &quota, &period)) continue;
            const uint64_t processors = quota / period + (quota % period != 0);
            if (!least || processors < least) least = processors ? processors : 1;
        } while (go_up(folder, layout));
    }
    return least > UINT32_MAX ? UINT32_MAX : (uint32_t)least;
}
