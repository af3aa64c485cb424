"""Muon for the matrices, AdamW for the embedding and the norms, over one process or several that share the work."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

WARM_UP = 60  # steps until the full learning rate
WEIGHT_DECAY = 0.03
MUON_SCALE = 0.2  # of the learning rate, times the root of the longer side: matrices move like AdamW's
MOMENTUM = 0.95


def learning_rate(step: int, steps: int, peak: float, decay: float) -> float:
    """Warm-up, then flat, then linear to zero over the last `decay` of all steps."""
    return peak * min(1.0, (step + 1) / WARM_UP, (steps - step) / (steps * decay + 1e-9))


def orthogonalise(gradients: Tensor, iterations: int = 5) -> Tensor:
    """Each matrix of the stack with its singular values pushed towards 1 (Newton-Schulz, the coefficients of Muon)."""
    x = gradients.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(iterations):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return (x.mT if tall else x).float()


class Optimiser:
    """Muon for the matrices, each process orthogonalising its share of them; AdamW for the rest.

    With `world` > 1 gradients are averaged over the processes of the default group of torch.distributed.
    """

    def __init__(self, model: nn.Module, rank: int = 0, world: int = 1) -> None:
        self.rank, self.world = rank, world
        named = list(model.named_parameters())
        self.parameters = [p for _, p in named]
        matrices = [p for name, p in named if p.ndim == 2 and "embed" not in name]
        self.groups: dict[tuple[int, ...], list[nn.Parameter]] = {}
        for p in matrices:
            self.groups.setdefault(tuple(p.shape), []).append(p)
        self.momentum = {shape: torch.zeros(len(ps), *shape, device=ps[0].device) for shape, ps in self.groups.items()}
        embedding = [p for name, p in named if "embed" in name]
        norms = [p for _, p in named if p.ndim == 1]
        groups = [{"params": embedding}, {"params": norms}]
        self.adam = torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0)

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Averages the gradients over the processes, clips them, moves the weights and clears the gradients."""
        flat = torch.cat([_grad(p).reshape(-1) for p in self.parameters])
        if self.world > 1:
            dist.all_reduce(flat)
        flat *= (1.0 / (flat.norm() + 1e-6)).clamp(max=1.0)
        parts = flat.split([p.numel() for p in self.parameters])
        torch._foreach_copy_(
            [_grad(p) for p in self.parameters],
            [part.view_as(p) for p, part in zip(self.parameters, parts, strict=True)],
        )
        for (shape, ps), update in zip(self.groups.items(), self._updates(), strict=True):
            torch._foreach_mul_(ps, 1 - lr * WEIGHT_DECAY)
            torch._foreach_add_(ps, list(update.unbind()), alpha=-lr * MUON_SCALE * max(shape) ** 0.5)
        self.adam.param_groups[0]["lr"], self.adam.param_groups[1]["lr"] = 0.6 * lr, lr
        self.adam.step()
        self.adam.zero_grad(set_to_none=False)
        torch._foreach_zero_([_grad(p) for ps in self.groups.values() for p in ps])

    def _updates(self) -> list[Tensor]:
        """For each group of matrices of one shape the stack of their orthogonal updates."""
        updates = []
        for shape, ps in self.groups.items():
            gradients = torch.stack([_grad(p) for p in ps])
            momentum = self.momentum[shape].lerp_(gradients, 1 - MOMENTUM)
            ahead = gradients.lerp(momentum, MOMENTUM)
            if self.world == 1:
                updates.append(orthogonalise(ahead))
                continue
            update = torch.zeros_like(gradients)
            mine = slice(len(ps) * self.rank // self.world, len(ps) * (self.rank + 1) // self.world)
            if mine.stop > mine.start:
                update[mine] = orthogonalise(ahead[mine])
            updates.append(update)
        if self.world > 1:
            flat = torch.cat([u.reshape(-1) for u in updates])
            dist.all_reduce(flat)
            updates = [
                part.view_as(u) for u, part in zip(updates, flat.split([u.numel() for u in updates]), strict=True)
            ]
        return updates

    def state(self) -> dict[str, Any]:
        return {"momentum": self.momentum, "adam": self.adam.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        self.momentum = {shape: saved.to(self.momentum[shape].device) for shape, saved in state["momentum"].items()}
        self.adam.load_state_dict(state["adam"])


def _grad(p: nn.Parameter) -> Tensor:
    assert p.grad is not None
    return p.grad
