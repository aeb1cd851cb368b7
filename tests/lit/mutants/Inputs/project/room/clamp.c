#include "clamp.h"

int clamp(int value, int most) {
    if (value > most) return most;
    return value;
}

bool is_small(int value) {
    if (value >= 10) return false;
    return true;
}

int sum_up_to(int count) {
    int sum = 0;
    for (int i = 0; i < count; i++) sum += i;
    return sum;
}

int drain(int value) {
    int steps = 0;
    while (value > 0) value -= 1, steps++;
    return steps;
}

int unused(int value) {
    return value + 3;
}
