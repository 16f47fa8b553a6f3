"""Judges codewords by PyPI reedsolo and galois: lines of "data sent spoiled" in hexadecimal on
standard input; prints a complaint per wrong line, and how many it judged by each library.
"""

import sys

import galois
import numpy
import reedsolo

own = reedsolo.RSCodec(32)  # First root alpha^0, polynomial 0x11D.
field = galois.GF(2**8, irreducible_poly="x^8 + x^4 + x^3 + x^2 + 1", primitive_element=2)
other = galois.ReedSolomon(255, 223, field=field, alpha=field(2), c=0)

lines = [[bytes.fromhex(word) for word in line.split()] for line in sys.stdin]
for number, (data, sent, spoiled) in enumerate(lines):
    if own.encode(data) != sent:
        print("reedsolo encodes line", number, "otherwise")
    if own.decode(spoiled)[0] != data:
        print("reedsolo decodes line", number, "otherwise")
datas = field(numpy.array([list(data) for data, _, _ in lines], dtype=numpy.uint8))
spoileds = field(numpy.array([list(spoiled) for _, _, spoiled in lines], dtype=numpy.uint8))
encoded = other.encode(datas)
decoded = other.decode(spoileds)
for number, (data, sent, _) in enumerate(lines):
    if bytes(encoded[number].tolist()) != sent:
        print("galois encodes line", number, "otherwise")
    if bytes(decoded[number].tolist()) != data:
        print("galois decodes line", number, "otherwise")
print("judged", len(lines))
