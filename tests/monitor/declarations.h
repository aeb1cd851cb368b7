/* declarations.h: monitor.def against a vendor's own header, as tests/driver/declarations.h does it
 * for gpu.def: our parameters must be taken by the vendor's function. */
#pragma GCC diagnostic ignored "-Wincompatible-pointer-types"
#pragma GCC diagnostic ignored "-Wint-conversion"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic error "-Wtraditional-conversion"

#define DECLARATION(verb, name, parameters, arguments)                           \
    int declared_##verb parameters;                                              \
    int declared_##verb parameters {                                             \
        _Static_assert(sizeof(name arguments) == sizeof(int), #name ": result"); \
        return 0 ? (int)name arguments : 0;                                      \
    }
#define SAME_PLACE(Ours, our, Theirs, their)                                     \
    _Static_assert(offsetof(Ours, our) == offsetof(Theirs, their) &&             \
                       sizeof(((Ours *)0)->our) == sizeof(((Theirs *)0)->their), \
                   #Ours "." #our)
