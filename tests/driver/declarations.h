/* declarations.h: gpu.def against a vendor's own header. Included by declarations_cuda.c and
 * declarations_hip.c with CALL(name, parameters, arguments) defined for the vendor's rows.
 *
 * For each row a function with our parameters calls the vendor's function with them, without
 * running it. A wrong number of arguments does not compile; a wrong width or signedness of an
 * integer is an error of -Wtraditional-conversion (gcc). Pointers and enumerations are allowed to
 * differ in name. */
#pragma GCC diagnostic ignored "-Wincompatible-pointer-types"
#pragma GCC diagnostic ignored "-Wint-conversion"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic error "-Wtraditional-conversion"

/* A fill's value is promoted in any call, and HIP calls the 32-bit one signed. */
#define FILL(verb, cuda, hip, type)                                                               \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wtraditional-conversion\"") \
        BOTH(int, verb, cuda, hip, FILL_PARAMETERS(type), FILL_ARGUMENTS)                         \
            _Pragma("GCC diagnostic pop")

#define DECLARATION(result, verb, name, parameters, arguments)                      \
    int declared_##verb parameters;                                                 \
    int declared_##verb parameters {                                                \
        _Static_assert(sizeof(name arguments) == sizeof(result), #name ": result"); \
        return 0 ? (int)(intptr_t)name arguments : 0;                               \
    }
