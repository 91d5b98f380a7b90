"""Linear layers that read the same rows, as one product."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Joined(nn.Linear):
    """Several linear layers of one input as a single product; their parameters become views of its own."""

    def __init__(self, parts: Sequence[nn.Linear]) -> None:
        first = parts[0]
        with torch.device("meta"):
            super().__init__(
                first.in_features, sum(part.out_features for part in parts), first.bias is not None
            )
        self.parts = list(parts)
        self.weight = _joined([part.weight for part in parts])
        if first.bias is not None:
            self.bias = _joined([part.bias for part in parts])


def _joined(parameters: Sequence[Tensor]) -> nn.Parameter:
    whole = torch.cat([parameter.detach() for parameter in parameters])
    for parameter, rows in zip(
        parameters, whole.split([len(parameter) for parameter in parameters]), strict=True
    ):
        parameter.data = rows
    return nn.Parameter(whole, requires_grad=False)
