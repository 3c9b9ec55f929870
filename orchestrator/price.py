"""What a study will cost: the plan's worker time at a rate that the user gives."""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchestrator.parts import Resources
from orchestrator.yaml_file import StudyError, shown


@dataclass(frozen=True)
class Price:
    """A rate, in whatever currency it was given."""

    rate: float
    unit: str  # cpu | gpu

    def hours(self, worker_seconds: float, resources: Resources) -> float:
        """Hours of the priced thing, in so much time of workers that take these resources."""
        each = resources.least_gpus if self.unit == "gpu" else resources.cpus
        return each * worker_seconds / 3600

    def cost(self, worker_seconds: float, resources: Resources) -> float:
        """What these hours cost."""
        return self.rate * self.hours(worker_seconds, resources)

    def __str__(self) -> str:
        return f"{self.rate:g}/{self.unit}-hour"


def price_of(text: str, resources: Resources) -> Price:
    """The rate that `1.2/gpu-hour` or `0.05/cpu-hour` names.

    Raises:
        StudyError: it names none, or one for GPUs where the study's workers take none.
    """
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)/(cpu|gpu)-hour", text)
    if found is None:
        raise StudyError([f"--price {shown(text)}: should look like 1.2/gpu-hour or 0.05/cpu-hour"])
    if found[2] == "gpu" and resources.gpus == "auto":
        raise StudyError(
            [f"--price {text}: the share of a GPU is auto; say one, as --set resources.gpus=0.25"]
        )
    if found[2] == "gpu" and not resources.gpus:
        raise StudyError(
            [f"--price {text}: the study's workers take no GPU; set resources.gpus, or price cpus"]
        )
    return Price(float(found[1]), found[2])
