"""Writes one .npy file per type as NumPy does (header padded to 64 bytes), and two in unusual orders."""
import struct


def write(path, descr, shape, data, fortran=False):
    shape_text = "(" + "".join(f"{n}," + (" " if i + 1 < len(shape) else "") for i, n in enumerate(shape))
    shape_text = shape_text.rstrip(",") + ")" if len(shape) > 1 else shape_text + ")"
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape_text}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


for name, descr, code in (("f64", "<f8", "d"), ("f32", "<f4", "f"), ("f16", "<f2", "e"), ("i64", "<i8", "q"),
                          ("i32", "<i4", "i"), ("u8", "|u1", "B"), ("bool", "|b1", "B")):
    values = [0, 1, 0, 1, 1, 0] if name == "bool" else range(6)
    write(f"{name}.npy", descr, (6,), struct.pack(f"<6{code}", *values))
# [[0, 1, 2], [3, 4, 5]], first axis fastest; [1, 1, 1]
write("fortran.npy", "<f4", (2, 3), struct.pack("<6f", 0, 3, 1, 4, 2, 5), fortran=True)
write("big.npy", ">f4", (3,), struct.pack(">3f", 1, 1, 1))
