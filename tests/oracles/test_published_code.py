"""One step of our rules beside the code that their authors and others published, in float64.

`make oracles` runs these; nothing else does. BioTorch comes from the package index, the others are
clones in a folder that RULESWEEP_ORACLES names. None of their code is part of this project.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from math import sqrt

import pytest
import torch
from torch import Tensor, nn

from rules import catalog
from rules.brsf import BRSF
from rules.dfa import DFA
from rules.fa import FA
from rules.frsf import FRSF
from rules.kp import KP
from rules.net import Net, Params
from rules.rule import Trace
from rules.usf import USF

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]

FRENKEL = "ChFrenkel/DirectRandomTargetProjection"
AKROUT = "makrout/Deep-Learning-without-Weight-Transport"
TINY = "lightonai/dfa-scales-to-modern-deep-learning"
ROSENBAUM = "RobertRosenbaum/Torch2PC"


def stack(sizes: tuple[int, ...]) -> nn.Sequential:
    """Linear layers with tanh between them."""
    pairs = [(nn.Linear(fan_in, fan_out), nn.Tanh()) for fan_in, fan_out in pairwise(sizes)]
    return nn.Sequential(*[part for pair in pairs for part in pair][:-1])


def gradients_of(layers: list[nn.Linear]) -> list[Tensor]:
    """Of W_1.. as (fan_in, fan_out), then of b_1..; zeros where a layer has none."""
    grads = [
        [torch.zeros_like(p) if p.grad is None else p.grad for p in (layer.weight, layer.bias)]
        for layer in layers
    ]
    return [*(w.T for w, _ in grads), *(b for _, b in grads)]


@dataclass(frozen=True)
class Drawn:
    """Streams that give these magnitudes of layers 1.. where brsf draws its own."""

    held: list[Tensor]

    def normal(self, purpose: str, shape: tuple[int, ...], step: int) -> Tensor:
        """Their size is as drawn; brsf divides by the root of the receiving width."""
        return self.held[int(purpose.removeprefix("feedback/")) - 1] * sqrt(shape[1])


@pytest.mark.parametrize("mode", ["fa", "usf", "brsf", "frsf", "dfa"])
def test_biotorch(mode: str, bench):
    """The feedback is what their layers hold after the forward pass.

    Theirs of usf has the size sqrt(2 / (n_l + n_{l+1})): as every width is half of the one below,
    that is the scale sqrt(4 / 3) for ours.
    """
    biomodule = pytest.importorskip("biotorch.module.biomodule", reason="biotorch is not installed")
    outputs = bench.case.sizes[-1]
    net = biomodule.BioModule(stack(bench.case.sizes), mode, copy_weights=False, output_dim=outputs)
    layers, x, loss = bench.layers(net), bench.x.requires_grad_(), nn.CrossEntropyLoss()
    loss(net(x, bench.y, loss) if mode == "dfa" else net(x), bench.y).backward()
    held = [layer.weight_backward.detach()[None] for layer in layers[1:]]
    rule, state = {
        "fa": (FA(), {"B": tuple(held)}),
        "dfa": (DFA(), {"B": tuple(held)}),
        "usf": (USF(scale=sqrt(4 / 3)), {}),
        "brsf": (BRSF(), {}),
        "frsf": (FRSF(), {"M": tuple(held)}),
    }[mode]
    trace, params = replace(bench.case.trace(), streams=Drawn(held)), bench.case.params()
    lesson, _ = rule.teach(trace, params, state)
    bench.close(bench.gradients(trace.inputs, lesson), gradients_of(layers))


@pytest.mark.parametrize("mode", ["BP", "shallow", "FA", "DFA", "sDFA", "DRTP"])
def test_frenkel_lefebvre_bol(mode: str, bench, clone):
    """Their direct modes send signals that are not divided by the batch."""
    clone(FRENKEL)
    import models

    sizes, batch, direct = bench.case.sizes, bench.case.batch, mode in ("DFA", "sDFA", "DRTP")
    topology = "_".join(f"FC_{n}" for n in sizes[1:])
    kind = (0, "tanh", "tanh", "none", False, "CE", torch.device("cpu"))
    net = models.NetworkBuilder(topology, 2, 5, sizes[-1], batch, mode, *kind)
    layers, onehot = bench.layers(net), nn.functional.one_hot(bench.y, sizes[-1])
    images = bench.x.reshape(-1, 5, 2, 2).requires_grad_()
    nn.functional.cross_entropy(net(images, onehot.to(bench.x)), bench.y).backward()
    state = {}
    if mode == "FA":
        state = {"B": tuple(block.fc.fixed_fb_weights[None] for block in net.layers[1:])}
    elif direct:
        state = {"B": tuple(block.hook.fixed_fb_weights[None] for block in net.layers[:-1])}
    theirs = gradients_of(layers)
    readout = len(layers) - 1, 2 * len(layers) - 1
    shares = [batch if direct and place not in readout else 1 for place in range(len(theirs))]
    ours = bench.taught(catalog.find(mode.lower())(), state)
    bench.close(ours, [g / share for g, share in zip(theirs, shares, strict=True)])


def test_tinydfa(bench, clone):
    """One matrix for all layers; each takes its first columns over the root of the most."""
    clone(TINY, "TinyDFA")
    import tinydfa

    points, sizes = [tinydfa.DFALayer() for _ in range(3)], bench.case.sizes
    plain, top = stack(sizes), tinydfa.DFA(points)
    hidden = [part for l, p in enumerate(points) for part in (*plain[2 * l : 2 * l + 2], p)]
    net = nn.Sequential(*hidden, plain[-1], top)
    layers = bench.layers(net)
    nn.functional.cross_entropy(net(bench.x), bench.y).backward()
    shared = top.feedback_matrix[None] / sqrt(max(sizes[1:-1]))
    state = {"B": tuple(shared[..., :n] for n in sizes[1:-1])}
    bench.close(bench.taught(DFA(), state), gradients_of(layers))


@pytest.mark.skipif("pc" not in catalog.BUILT_IN, reason="no rule pc")
@pytest.mark.parametrize(("rate", "steps"), [(1.0, 4), (0.3, 9)])
def test_rosenbaum(rate: float, steps: int, bench, clone):
    """Fixed predictions. Their errors are those before the last step of inference."""
    clone(ROSENBAUM)
    from TorchSeq2PC import PCInfer

    plain = stack(bench.case.sizes)
    net = nn.Sequential(*(plain[i : i + 2] for i in (0, 2, 4)), plain[6])
    layers = bench.layers(net)
    PCInfer(net, nn.CrossEntropyLoss(), bench.x, bench.y, "FixedPred", eta=rate, n=steps)
    rule = catalog.find("pc")(inference_rate=rate, inference_steps=steps - 1)
    bench.close(bench.taught(rule, {}), gradients_of(layers))


def akrout_trace(bench, params: Params, step: int = 0, decay: float = 0.0) -> Trace:
    """Their readout has sigmoid units and a cross-entropy each: the error is sigmoid(o) - y."""
    (x, y), net = bench.case.examples(), Net("sigmoid")
    error = torch.sigmoid(net.logits(params, x)) - nn.functional.one_hot(y).to(x)
    trace = net.trace(params, x, y, bench.case.streams, step)
    return replace(trace, error=error, weight_decay=decay)


def akrout_model(model, params: Params, backward: tuple[Tensor, ...]):
    """Their network with our weights and feedback; its columns are examples."""
    model.weights = [w[0].T.numpy().copy() for w in params.weights]
    model.biases = [b[0].T.numpy().copy() for b in params.biases]
    model.backward_weights[1:] = [b[0].T.numpy().copy() for b in backward]
    return model


def test_akrout_et_al_feedback_alignment(bench, clone, tmp_path):
    """Their weight gradients are sums over the batch, their bias gradients means."""
    clone(AKROUT)
    from fcnn.FCNN_FA import FCNN_FA

    params, state = bench.case.params(), FA().init(bench.case.dims, bench.case.streams)
    model = akrout_model(FCNN_FA(list(bench.case.sizes), str(tmp_path)), params, state["B"])
    trace, onehot = akrout_trace(bench, params), nn.functional.one_hot(bench.y)
    _, biases, weights = model.backpropagate(bench.x.T.numpy(), onehot.T.numpy())
    theirs = [torch.from_numpy(w).T / bench.case.batch for w in weights]
    theirs += [torch.from_numpy(b)[:, 0] for b in biases]
    lesson, _ = FA().teach(trace, params, state)
    bench.close(bench.gradients(trace.inputs, lesson), theirs)


def test_akrout_et_al_kolen_pollack(bench, clone, tmp_path):
    """Five steps of training with decay, forward and feedback weights.

    They divide the biases' gradients by the batch twice, and let biases not decay.
    """
    clone(AKROUT)
    from fcnn.FCNN_KP import FCNN_KP

    rule, lr, kept, batch = KP(), 0.5, 0.95, bench.case.batch
    params, state = bench.case.params(), rule.init(bench.case.dims, bench.case.streams)
    model = akrout_model(FCNN_KP(list(bench.case.sizes), str(tmp_path)), params, state["B"])
    data = (bench.x.numpy(), nn.functional.one_hot(bench.y).numpy())
    model.train(*data, *data, batch, lr, 5, 1, weight_decay=kept)
    for step in range(5):
        trace = akrout_trace(bench, params, step, 1 - kept)
        lesson, state = rule.teach(trace, params, state)
        found = iter(bench.gradients(trace.inputs, lesson))
        params = Params(
            tuple(kept * w - lr * next(found) for w in params.weights),
            tuple(b - lr / batch * next(found) for b in params.biases),
        )
    now = zip(state["B"], state["W"], params.weights[1:], strict=True)
    ours = [*(w[0] for w in params.weights), *((b + (w - old).mT)[0] for b, old, w in now)]
    theirs = [torch.from_numpy(w).T for w in model.weights]
    theirs += [torch.from_numpy(b).T for b in model.backward_weights[1:]]
    bench.close(ours, theirs)
