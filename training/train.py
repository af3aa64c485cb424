r"""Trains the model, on a GPU where there is one, else on the CPU.

On the CPU every process (one a core) makes its part of each step's texts, and gradients are averaged over gloo. On a
GPU one process trains and the others make texts for it, a whole step's in turn.

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
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from training import tokenizer
from training.batches import Batch, TextBatches, in_turns
from training.model import Config, Model
from training.optimiser import Optimiser, learning_rate

DEFAULTS = {"steps": 12_000, "lr": 5e-3, "decay": 0.5, "seed": 1, "average": 0.005, "config": ""}
LINE = 40  # steps a line of the report on the CPU; ten times as many on a GPU


def loss_of(model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
    """(summed loss, number of targets predicted), over the targets of a batch."""
    with torch.autocast(batch.ids.device.type, dtype=torch.bfloat16):
        hidden = model.hidden(batch.ids, layout=batch.layout).flatten(0, 1)
        # A multiple of 128 rows: on the CPU each new shape would cost the matrix library a compilation.
        padded = torch.cat((batch.at, batch.at[:1].expand(-len(batch.at) % 128)))
        logits = model.logits(hidden[padded])[: len(batch.at)]
    targets = batch.targets
    loss = functional.cross_entropy(logits.float(), targets, reduction="sum")
    return loss, (logits.argmax(-1) == targets).sum()


def load_weights(path: str) -> dict[str, Tensor]:
    """The weights of a checkpoint, or of an exported model.safetensors."""
    loaded = load_file(path) if path.endswith(".safetensors") else torch.load(path, map_location="cpu")["weights"]
    return {name: tensor.float() for name, tensor in loaded.items()}


def save(path: str, content: dict[str, Any]) -> None:
    torch.save(content, path + ".new")
    os.replace(path + ".new", path)  # whoever reads the file meanwhile sees a whole one


def config_of(text: str, vocab: int) -> Config:
    """The model's shape: "layers=8,ffn=320" changes what it names."""
    pairs = (pair.split("=") for pair in text.split(",") if pair)
    return replace(Config(vocab=vocab), **{key: int(value) for key, value in pairs})


class Report:
    """A line every few steps: loss, accuracy, speed, time left. Sums stay on the device until a line is printed."""

    def __init__(self, steps: int, every: int, say: Callable[[str], None]) -> None:
        self.steps, self.every, self.say = steps, every, say
        self.start = self.last = time.time()
        self.sums: list[Any] = [0, 0, 0, 0]

    def add(self, step: int, tokens: int, loss: Tensor, right: Tensor, targets: float, seen: int) -> None:
        self.sums = [a + b for a, b in zip(self.sums, (loss, right, targets, seen), strict=True)]
        if (step + 1) % self.every:
            return
        (loss_sum, right_sum, all_targets, all_seen), now = (float(x) for x in self.sums), time.time()
        left = (self.steps - step - 1) / self.every * (now - self.last)
        self.say(
            f"step {step + 1} of {self.steps}  loss {loss_sum / all_targets:.4f}  "
            f"accuracy {right_sum / all_targets:.4f}  {tokens / 1e6:.1f} M tokens  "
            f"{all_seen / (now - self.last):.0f} tokens/s  {(now - self.start) / 60:.1f} min, {left / 60:.1f} left"
        )
        self.sums, self.last = [0, 0, 0, 0], now


def batches(a: argparse.Namespace, rank: int, first: int) -> Iterator[Batch]:
    """This process's batch of each step from `first` on."""
    warm_up = not a.init
    if a.device == "cuda":
        yield from in_turns(a.seed, a.tokens, first, a.processes, warm_up=warm_up)
    texts = TextBatches(a.seed, rank, a.tokens // a.processes)
    for step in range(first, a.steps):
        yield texts.batch(step, warm_up=warm_up)


def work(rank: int, a: argparse.Namespace) -> None:
    """One process of the training."""
    stop: list[int] = []
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, frame: stop.append(number))
    world = 1 if a.device == "cuda" else a.processes
    torch.set_num_threads(1)
    if world > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(a.port))
        dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(a.seed)
    device = torch.device(a.device)
    model = Model(config_of(a.config, tokenizer.load().get_vocab_size()))
    first, tokens = 0, 0
    saved = torch.load(a.resume, map_location="cpu") if a.resume else None
    if saved:
        model.load_state_dict(saved["raw"])
        first, tokens = saved["step"], saved["tokens"]
    elif a.init:
        model.load_state_dict(load_weights(a.init))
    feed = batches(a, rank, first)
    begun = next(feed, None)  # the makers are forked before this process touches a GPU
    model.to(device)
    optimiser = Optimiser(model, rank, world)
    parameters = dict(model.named_parameters())
    mean = [p.detach().clone() for p in parameters.values()]
    if saved:
        optimiser.restore(saved["optimiser"])
        mean = [saved["weights"][name].to(device) for name in parameters]
    say = (lambda text: print(text, flush=True)) if rank == 0 else (lambda text: None)
    say(f"{sum(p.numel() for p in mean)} parameters on {a.device}, steps {first} to {a.steps}")
    report = Report(a.steps, LINE if a.device == "cpu" else LINE * 10, say)
    last_save = time.time()

    def checkpoint(step: int) -> None:
        if rank == 0:
            weights = dict(zip(parameters, mean, strict=True))
            settings = {k: getattr(a, k) for k in (*DEFAULTS, "init", "tokens", "processes")}
            content = {"weights": weights, "raw": model.state_dict(), "optimiser": optimiser.state()}
            save(a.out, content | {"config": asdict(model.c), "step": step, "tokens": tokens, "settings": settings})

    for step in range(first, a.steps):
        made, begun = begun or next(feed), None
        batch = made.to(device)
        loss, right = loss_of(model, batch)
        shared = torch.tensor([float(len(made.at)), float(bool(stop))])
        if world > 1:
            dist.all_reduce(shared)
        if shared[1]:  # every process stops after the same step
            say(f"stopped before step {step}; go on with --resume {a.out}")
            checkpoint(step)
            break
        (loss / shared[0]).backward()  # type: ignore[no-untyped-call]
        optimiser.step(learning_rate(step, a.steps, a.lr, a.decay))
        torch._foreach_lerp_(mean, [p.detach() for p in parameters.values()], max(a.average, 1 / (step + 2)))
        tokens += made.ids.numel() * world
        # What is shown of several processes is the first one's share.
        report.add(step, tokens, loss.detach(), right, len(made.at), made.ids.numel() * world)
        if time.time() - last_save > a.save_every:
            checkpoint(step + 1)
            last_save = time.time()
    else:
        checkpoint(a.steps)
        say(f"done: {a.out}")
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


def arguments() -> argparse.Namespace:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    p = argparse.ArgumentParser(
        prog="python -m training.train", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--steps", type=int, help="default 12000")
    p.add_argument("--tokens", type=int, help="of a step, about (default 6000 on the CPU, 24000 on a GPU)")
    p.add_argument("--lr", type=float, help="the peak (default 5e-3; 3e-3 is right to go on with --init)")
    p.add_argument("--decay", type=float, help="share of the steps over which it falls to zero at the end (0.5)")
    p.add_argument("--out", default="training/runs/weights.pt", help="the checkpoint, rewritten as the training goes")
    p.add_argument("--init", help="start from these weights (.pt or model.safetensors), without the warm-up curriculum")
    p.add_argument("--resume", help="go on with a stopped training; what is not given comes from the checkpoint")
    p.add_argument("--seed", type=int, help="of the start and of the texts (default 1)")
    p.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--processes", type=int, help="that train on the CPU (2), or make texts for a GPU (all cores but 1)")
    p.add_argument(
        "--average", type=float, help="share of the newest weights in the running mean (0.005; 0.02 if short)"
    )
    p.add_argument("--config", help='another shape of the model, as in "layers=8,ffn=320" (training.model.Config)')
    p.add_argument("--save-every", type=float, default=120, help="seconds between checkpoints")
    p.add_argument("--port", type=int, default=29_533, help="on which the processes meet (127.0.0.1)")
    a = p.parse_args()
    if a.init and a.resume:
        p.error("--init starts a new training and --resume goes on with an old one: give one of them")
    of_device = {"tokens": 6000, "processes": 2} if a.device == "cpu" else {"tokens": 24_000, "processes": cores - 1}
    saved = torch.load(a.resume, map_location="cpu")["settings"] if a.resume else {}
    for key, value in (DEFAULTS | of_device | saved).items():
        if getattr(a, key) is None:
            setattr(a, key, value)
    a.processes = max(1, a.processes)
    a.out = a.resume or a.out
    os.makedirs(os.path.dirname(a.out) or ".", exist_ok=True)
    return a


def main() -> None:
    a = arguments()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if a.device == "cuda":
        work(0, a)
        return
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
