/* Ends a context with memory that nobody freed. */
#include <lockstep/lockstep.h>

int main(void) {
    ls_context *context;
    void *pointer;
    if (ls_context_create("cpu", 0, &context) != LS_OK) return 1;
    for (int i = 0; i < 2; i++)
        if (ls_alloc_labeled(context, 1u << 20, "weights", &pointer) != LS_OK) return 1;
    if (ls_alloc(context, 100, &pointer) != LS_OK) return 1;
    ls_context_destroy(context);
    return 0;
}
