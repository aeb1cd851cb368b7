"""Runs two builds of a one-array map with the kernel interface of lockstep/image.h and compares them:
streamed.py PLAIN.so STREAMED.so"""
import ctypes, random, sys

def kernel(path):
    return ctypes.CDLL(path).lockstep_streamed

def run(function, n, x, offset):
    y = (ctypes.c_float * (n + 8))()
    words = (ctypes.c_uint64 * 8)(n, ctypes.addressof(x), ctypes.addressof(y) + offset)
    function(words, ctypes.c_uint64(0), ctypes.c_uint64((n + 1023) // 1024), 0, 1)
    return bytes(y)

plain, streamed = kernel(sys.argv[1]), kernel(sys.argv[2])
for n in [0, 1, 3, 255, 1023, 1024, 1025, 4097, 100003]:
    x = (ctypes.c_float * (n + 1))(*[random.uniform(-4, 4) for _ in range(n)])
    for offset in (0, 4, 16): # of the result in memory: an odd address must do as well
        if run(plain, n, x, offset) != run(streamed, n, x, offset):
            sys.exit("n=%d, offset %d: the bits differ" % (n, offset))
print("the same bits")
