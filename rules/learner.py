"""The state of training: the replicas that still train, and all that their next step depends on."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from torch import Tensor

from rules.net import Params
from rules.rule import Rule, State
from rules.streams import Streams


@dataclass
class Learner:
    """The replicas that still train, and all that their next step depends on."""

    replicas: list[int]  # their places in the job
    rule: Rule
    params: Params
    moments: tuple[Params, ...]  # what the optimiser carries from step to step
    state: State
    streams: Streams
    init_seeds: list[int]
    lr: Tensor  # (replica, 1, 1)
    limit: Tensor  # loss above which a replica has diverged; (replica,)
    healthy: Tensor  # (replica,)
    lasted: Tensor  # steps with a loss within bounds; (replica,)
    step: int = 0

    def part(self, places: list[int]) -> Learner:
        """A copy of these places only."""
        part = replace(self)
        part.keep(places)
        return part

    def keep(self, places: list[int]) -> None:
        """Go on with these places of the learner only."""
        self.replicas = [self.replicas[p] for p in places]
        self.init_seeds = [self.init_seeds[p] for p in places]
        self.rule = keep_rule(self.rule, places)
        self.params = self.params.keep(places)
        self.moments = tuple(kept.keep(places) for kept in self.moments)
        self.state = keep_state(self.state, places)
        self.streams = self.streams.keep(places)
        self.lr, self.limit = self.lr[places], self.limit[places]
        self.healthy, self.lasted = self.healthy[places], self.lasted[places]


def keep_state(state: State, replicas: list[int]) -> State:
    """A rule's state for these replicas only."""
    return {name: tuple(t[replicas] for t in tensors) for name, tensors in state.items()}


def keep_rule(rule: Rule, replicas: list[int]) -> Rule:
    """A rule whose searched options, one value a replica, are those of these replicas."""
    options: Any = rule
    searched = {
        f.name: value[replicas]
        for f in fields(options)
        if isinstance(value := getattr(rule, f.name), Tensor)
    }
    return replace(options, **searched) if searched else rule
