"""Learning rules and the batched networks they teach: this package knows tensors only."""
