/* float.h as C functions of steps see it. */
#ifndef LOCKSTEP_C_FLOAT
#define LOCKSTEP_C_FLOAT
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1p-126f
#define FLT_TRUE_MIN 0x1p-149f
#define FLT_EPSILON 0x1p-23f
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define DBL_MAX 0x1.fffffffffffffp1023
#define DBL_MIN 0x1p-1022
#define DBL_TRUE_MIN 0x1p-1074
#define DBL_EPSILON 0x1p-52
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#endif
