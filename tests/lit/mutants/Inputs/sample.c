/* Every operator of tests/mutants/find.py, once. */
#define NULL ((void *)0)
#define false 0
#define FIVE 5
#define TWICE(x) (2 * (x))
typedef unsigned char u8;
enum { CONSTANT = 7 };
static const int table[2] = {8, 9};
extern void wait_for(int *place);
extern int fail(int what);
extern int ls_min(int a, int b);
extern int other(int a, int b);

static _Bool inside(int at, int count) {
    if (at < 0 || at >= count) return false;
    if (at != 1) return 1;
    return false;
}

static void *refuses(int *place, long wide, int narrow_one) {
    static int kept = 6;
    if (place == NULL) fail(kept);
    if (wide != FIVE) return NULL;
    if ((u8)wide == narrow_one) return place;
    wait_for(place);
    *place = TWICE(narrow_one) + table[0];
    switch (*place) {
    case CONSTANT + 1: return place;
    default: return refuses(place, narrow_one > 3 ? wide : 4, 0x10);
    }
}

int all(int a, int b) {
    const int wide = inside(a, b) && refuses(&a, b, a) ? other(a, b) - ls_min(a, b) : 0;
    return wide;
}

#define EITHER(value) \
    case value: return value

int fixed(int a) {
    switch (a) {
        EITHER(6);
    default: return a;
    }
}

extern int ls_fma_s32(int a, int b, int c);
int fused(int a, int b, int c) {
    return ls_fma_s32(a, b, c);
}
