#include <stdio.h>
#include <stdlib.h>

#include "room/clamp.h"

int main(int count, char **words) {
    const int value = count > 1 ? atoi(words[1]) : 0;
    if (count > 2) return unused(value);
    printf("%d %d ", clamp(value, 5), is_small(value));
    printf("%d %d\n", sum_up_to(value), drain(value));
    return 0;
}
