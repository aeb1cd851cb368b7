"""What the Python package declares, in the lines of layouts.c."""
import ctypes
import sys

sys.path.insert(0, sys.argv[1])
import lockstep._api as lt  # noqa: E402

STRUCTURES = [("ls_tensor", lt.Tensor), ("ls_image_term", lt.ImageTerm), ("ls_image_axis", lt.ImageAxis),
              ("ls_image_parameter", lt.ImageParameter), ("ls_image", lt.Image),
              ("ls_compile_options", lt.CompileOptions), ("ls_explain_options", lt.ExplainOptions),
              ("ls_kernels_options", lt.KernelsOptions), ("ls_graph_statistics", lt.GraphStatistics),
              ("ls_feed_array", lt.FeedArray), ("ls_feed_statistics", lt.FeedStatistics)]
for name, structure in STRUCTURES:
    for field, _ in structure._fields_:
        place = getattr(structure, field)
        print(f"{name}.{field} {place.offset} {place.size}")
for name, structure in STRUCTURES:
    print(name, ctypes.sizeof(structure))
for name, number in [("IMAGE_VERSION", lt.IMAGE_VERSION), ("OK", lt.OK), ("ERROR_ARGUMENT", lt.ERROR_ARGUMENT),
                     ("ERROR_PROGRAM", lt.ERROR_PROGRAM), ("IN", lt.IN), ("INOUT", lt.INOUT), ("OUT", lt.OUT),
                     *((f"TERM_{term}", i) for i, term in enumerate(lt.TERMS)),
                     *((f"REPORT_{report}", i) for i, report in enumerate(lt.REPORTS))]:
    print(f"LS_{name} {number}")
print("LS_TYPE_COUNT", len(lt.TYPES))
for number, (name, size) in enumerate(zip(lt.TYPES, lt.BYTES)):
    print("type", number, name, size)
