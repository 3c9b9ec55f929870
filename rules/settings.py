"""The settings of one training run as plain values: nothing here needs torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """A multilayer perceptron: `depth` hidden layers of `width` units and a linear readout."""

    depth: int
    width: int
    activation: str = "tanh"  # tanh | relu | sigmoid
    residual: bool = False  # h_l = phi(z_l) + h_{l-1}, from the second hidden layer on
    bias: bool = True


@dataclass(frozen=True)
class Training:
    """How a network is trained, the same for every rule of a study."""

    steps: int
    batch_size: int  # examples a step; at least the training set's size means full batch
    momentum: float = 0.9
    weight_decay: float = 0.0  # W <- (1 - weight_decay) W - lr direction at each step
    loss: str = "cross-entropy"  # cross-entropy | squared (half the sum over outputs)
    dtype: str = "float32"  # float32 | float64
    record: tuple[int, ...] = ()  # steps after which the curves take a point, ascending
    normalize_signals: bool = False  # scale hidden signals to the norm of the output error
    optimizer: str = "sgd"  # sgd | adam, whose first decay is the momentum
    schedule: str = "constant"  # constant | linear | cosine: lr and decay over the steps
    warmup: int = 0  # steps in which they grow linearly from nothing, before the schedule
    compile: bool = False  # the step as machine code of its own: see rules/compiled.py


@dataclass(frozen=True)
class Measure:
    """What is measured besides losses and accuracies."""

    alignment: bool = True  # cosine of the rule's signal with the true one, at recorded steps
    probes: bool = True  # ridge classifiers on every hidden layer, at the end
    examples: int = 500  # held-out examples of the alignment's fixed batch
    probe_examples: int = 10_000  # training examples of a probe
    ridge: float = 0.1  # the probe's penalty, not scaled by the number of examples
