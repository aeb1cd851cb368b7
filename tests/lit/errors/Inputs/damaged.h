static inline float half(float x) { return x / two; }
static inline float third(float x) { return x / 3 }
#include "no_such_header.h"
