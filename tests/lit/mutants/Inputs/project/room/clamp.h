#include <stdbool.h>
int clamp(int value, int most);
bool is_small(int value);
int sum_up_to(int count);
int drain(int value);
int unused(int value);
