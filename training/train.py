r"""Trains the model on the CPU: one process with one thread for each core, gradients averaged over gloo.

Matrices are trained with Muon (momentum made orthogonal), the embedding and the norms with AdamW, in bfloat16. Only
what the assistant writes is learnt. The schedule is counted in steps: each step's texts follow from the seed, the
process and the step's number, so a training that was stopped (Ctrl-C saves) goes on with --resume as if it had not
been. Shipped is the running mean of the weights over the last few hundred steps, so that a checkpoint of any moment is
usable.

    OMP_NUM_THREADS=1 python -m training.train --steps 12000 --out training/runs/first.pt
    OMP_NUM_THREADS=1 python -m training.train --resume training/runs/first.pt
    OMP_NUM_THREADS=1 python -m training.train --init training/runs/first.pt --steps 3000 --lr 3e-3 --seed 2 \
        --out training/runs/second.pt
"""

import argparse
import os
import signal
import time
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from training.batches import COPY_STEPS, Batch, TextBatches, copy_batch, ids_and_targets
from training.model import Config, Model

DEFAULTS = {"steps": 12_000, "lr": 5e-3, "decay": 0.5, "seed": 1, "processes": 2, "average": 0.005}
WARM_UP = 60  # steps until the full learning rate
WEIGHT_DECAY = 0.03
MUON_SCALE = 0.2  # of the learning rate, times the root of the longer side: matrices move like AdamW's


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
    """Muon for the matrices, each process orthogonalising its share of them; AdamW for the rest."""

    def __init__(self, model: Model, rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        named = list(model.named_parameters())
        self.parameters = [p for _, p in named]
        matrices = [p for name, p in named if p.ndim == 2 and "embed" not in name]
        self.groups: dict[tuple[int, ...], list[nn.Parameter]] = {}
        for p in matrices:
            self.groups.setdefault(tuple(p.shape), []).append(p)
        self.momentum = {shape: torch.zeros(len(ps), *shape) for shape, ps in self.groups.items()}
        embedding = [p for name, p in named if "embed" in name]
        norms = [p for _, p in named if p.ndim == 1]
        groups = [{"params": embedding}, {"params": norms}]
        self.adam = torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0)

    def step(self, lr: float) -> None:
        """Averages the gradients over the processes, clips them, moves the weights and clears the gradients."""
        flat = torch.cat([_grad(p).reshape(-1) for p in self.parameters])
        dist.all_reduce(flat)
        flat *= min(1.0, 1.0 / (float(flat.norm()) + 1e-6))
        for p, part in zip(self.parameters, flat.split([p.numel() for p in self.parameters]), strict=True):
            _grad(p).copy_(part.view_as(p))
        updates = []
        for shape, ps in self.groups.items():
            gradients = torch.stack([_grad(p) for p in ps])
            self.momentum[shape].mul_(0.95).add_(gradients, alpha=0.05)
            update = torch.zeros_like(gradients)
            mine = slice(len(ps) * self.rank // self.world, len(ps) * (self.rank + 1) // self.world)
            if mine.stop > mine.start:
                update[mine] = orthogonalise((gradients * 0.05 + self.momentum[shape] * 0.95)[mine])
            updates.append(update)
        flat = torch.cat([u.reshape(-1) for u in updates])
        dist.all_reduce(flat)
        with torch.no_grad():
            parts = flat.split([u.numel() for u in updates])
            for (shape, ps), part in zip(self.groups.items(), parts, strict=True):
                for p, update in zip(ps, part.view(len(ps), *shape), strict=True):
                    p.mul_(1 - lr * WEIGHT_DECAY).add_(update, alpha=-lr * MUON_SCALE * max(shape) ** 0.5)
        self.adam.param_groups[0]["lr"], self.adam.param_groups[1]["lr"] = 0.6 * lr, lr
        self.adam.step()
        self.adam.zero_grad(set_to_none=False)

    def state(self) -> dict[str, Any]:
        return {"momentum": self.momentum, "adam": self.adam.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        self.momentum = state["momentum"]
        self.adam.load_state_dict(state["adam"])


def _grad(p: nn.Parameter) -> Tensor:
    assert p.grad is not None
    return p.grad


def loss_of(model: Model, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """(summed loss, number of targets, number of them predicted), over the targets of a batch."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = model.hidden(batch.ids, layout=batch.layout).flatten(0, 1)
        at, targets = ids_and_targets(batch)
        # A multiple of 128 rows: each new shape would cost the matrix library a compilation.
        padded = torch.cat((at, at[:1].expand(-len(at) % 128)))
        logits = model.logits(hidden[padded])[: len(at)]
    loss = functional.cross_entropy(logits.float(), targets, reduction="sum")
    return loss, torch.tensor(float(len(at))), (logits.argmax(-1) == targets).sum().float()


def load_weights(path: str) -> dict[str, Tensor]:
    """The weights of a checkpoint, or of an exported model.safetensors."""
    loaded = load_file(path) if path.endswith(".safetensors") else torch.load(path)["weights"]
    return {name: tensor.float() for name, tensor in loaded.items()}


def save(path: str, content: dict[str, Any]) -> None:
    torch.save(content, path + ".new")
    os.replace(path + ".new", path)  # whoever reads the file meanwhile sees a whole one


def work(rank: int, a: argparse.Namespace) -> None:
    """One process of the training."""
    stop: list[int] = []
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, frame: stop.append(number))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(a.port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=a.processes)
    torch.manual_seed(a.seed)
    texts = TextBatches(a.seed, rank)
    model = Model(Config(vocab=texts.vocab))
    optimiser = Optimiser(model, rank, a.processes)
    first, tokens = 0, 0
    if a.init and not a.resume:
        model.load_state_dict(load_weights(a.init))
    mean = [p.detach().clone() for p in model.parameters()]
    if a.resume:
        saved = torch.load(a.resume)
        model.load_state_dict(saved["raw"])
        optimiser.restore(saved["optimiser"])
        mean, first, tokens = list(saved["weights"].values()), saved["step"], saved["tokens"]
    names = [name for name, _ in model.named_parameters()]
    say = print if rank == 0 else lambda *args, **kw: None
    say(f"{sum(p.numel() for p in model.parameters())} parameters, steps {first} to {a.steps}", flush=True)
    start = last_save = last_line = time.time()
    sums = torch.zeros(4)

    def checkpoint(step: int) -> None:
        if rank == 0:
            weights = dict(zip(names, mean, strict=True))
            settings = {k: getattr(a, k) for k in (*DEFAULTS, "init")}
            content = {"weights": weights, "raw": model.state_dict(), "optimiser": optimiser.state()}
            save(a.out, content | {"config": asdict(model.c), "step": step, "tokens": tokens, "settings": settings})

    for step in range(first, a.steps):
        from_nothing = not a.init
        if from_nothing and step < COPY_STEPS:
            batch = copy_batch(a.seed, rank, step, texts.vocab)
        else:
            batch = texts.batch(step, easy=from_nothing)
        loss, count, right = loss_of(model, batch)
        shared = torch.stack([count, torch.tensor(float(bool(stop)))])
        dist.all_reduce(shared)
        if shared[1]:  # every process stops after the same step
            say(f"stopped before step {step}; go on with --resume {a.out}", flush=True)
            checkpoint(step)
            break
        (loss / shared[0]).backward()  # type: ignore[no-untyped-call]
        optimiser.step(learning_rate(step, a.steps, a.lr, a.decay))
        torch._foreach_lerp_(mean, [p.detach() for p in model.parameters()], max(a.average, 1 / (step + 2)))
        tokens += batch.ids.numel() * a.processes
        sums += torch.stack([loss.detach(), count, right, torch.tensor(float(batch.ids.numel() * a.processes))])
        now = time.time()
        if (step + 1) % 40 == 0:
            speed, left = float(sums[3]) / (now - last_line), (a.steps - step - 1) / 40 * (now - last_line)
            say(
                f"step {step + 1} of {a.steps}  loss {sums[0] / sums[1]:.4f}  "
                f"accuracy {sums[2] / sums[1]:.4f}  "
                f"{tokens / 1e6:.2f} M tokens  {speed:.0f} tokens/s  "
                f"{(now - start) / 60:.1f} min, {left / 60:.0f} left",
                flush=True,
            )
            sums.zero_()
            last_line = now
        if now - last_save > a.save_every:
            checkpoint(step + 1)
            last_save = now
    else:
        checkpoint(a.steps)
        say(f"done: {a.out}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(
        prog="python -m training.train", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--steps", type=int, help="of about 5,800 tokens with two processes (default 12000)")
    p.add_argument("--lr", type=float, help="the peak (default 5e-3; 3e-3 is right to go on with --init)")
    p.add_argument("--decay", type=float, help="share of the steps over which it falls to zero at the end (0.5)")
    p.add_argument("--out", default="training/runs/weights.pt", help="the checkpoint, rewritten as the training goes")
    p.add_argument("--init", help="start from these weights (.pt or model.safetensors), without the warm-up curriculum")
    p.add_argument("--resume", help="go on with a stopped training; what is not given comes from the checkpoint")
    p.add_argument("--seed", type=int, help="of the start and of the texts (default 1)")
    p.add_argument("--processes", type=int, help="one for each free core (default 2)")
    p.add_argument(
        "--average", type=float, help="share of the newest weights in the running mean (0.005; 0.02 if short)"
    )
    p.add_argument("--save-every", type=float, default=120, help="seconds between checkpoints")
    p.add_argument("--port", type=int, default=29_533, help="on which the processes meet (127.0.0.1)")
    a = p.parse_args()
    if a.init and a.resume:
        p.error("--init starts a new training and --resume goes on with an old one: give one of them")
    settings = DEFAULTS | (torch.load(a.resume)["settings"] if a.resume else {})
    for key, value in settings.items():
        if getattr(a, key) is None:
            setattr(a, key, value)
    a.out = a.resume or a.out
    os.makedirs(os.path.dirname(a.out) or ".", exist_ok=True)
    return a


def main() -> None:
    a = arguments()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    context = mp.get_context("spawn")
    processes = [context.Process(target=work, args=(rank, a)) for rank in range(a.processes)]
    for p in processes:
        p.start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the processes get the terminal's Ctrl-C themselves, and save
    print("process ids", *(p.pid for p in processes), flush=True)
    for p in processes:
        p.join()


if __name__ == "__main__":
    main()
