"""Learning rules and the batched networks they teach: this package knows tensors only."""

import os

# One code path of MKL for every product, whatever the batch around it: a network's result is
# then the same, bit for bit, alone and in a pack. MKL reads this at its first use.
os.environ.setdefault("MKL_CBWR", "AVX2")
