"""A candidate of several ranks as one callable over all ranks' inputs, as the judge sees a call."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from cuassay.model.candidate import Candidate
from cuassay.model.device import Device
from cuassay.model.problem import Problem
from cuassay.model.ranks import Lies, Ranks, parts
from cuassay.ranks.parts import part_of, rank_count
from cuassay.sandbox.guest.memory import placement
from cuassay.sandbox.guest.process import walls
from cuassay.sandbox.guest.ranks.member import takes_group
from cuassay.sandbox.guest.ranks.messages import Holds, Packed, pack, unpack
from cuassay.sandbox.guest.ranks.start import Recipe, open_starter
from cuassay.sandbox.guest.ranks.world import Timing, World

Call = Mapping[str, Any]  # of all ranks, an input's value by its name


class ReturnedError(Exception):
    """What ranks returned cannot be put together: the message says which output, and why not."""


class Ranked:
    """Calls a function on ranks. Their processes live from one call to the next."""

    def __init__(
        self,
        function: Callable[..., object],
        problem: Problem,
        ranks: Ranks,
        *,
        recipe: Recipe,
        device: Device,
        starter: socket.socket | None,
    ) -> None:
        self._function, self._problem, self._ranks = function, problem, ranks
        self._recipe, self._device, self._starter = recipe, device, starter
        self._worlds: dict[tuple[int, int], World] = {}

    @property
    def takes_group(self) -> bool:
        """Whether the function is told which group it is called in."""
        return takes_group(self._function)

    def close(self) -> None:
        """End the processes of the ranks."""
        for world in self._worlds.values():
            world.close()
        self._worlds = {}

    def __call__(self, *given: Any) -> object:
        """Return all ranks' outputs of one call; inputs hold afterwards what the ranks left."""
        names = [spec.name for spec in self._problem.inputs]
        (answer,) = self.run([[dict(zip(names, given, strict=True))]], Timing())[0]
        return answer[0] if len(answer) == 1 else tuple(answer)

    def run(self, groups: Sequence[Sequence[Call]], timing: Timing) -> list[list[list[Any]]]:
        """Return the outputs of each call of each group, in the order of the problem's outputs.

        A rank makes the calls of its group one after another and waits for no other rank between
        them; all groups are at work at once, where the function takes a group, else in turn.
        Inputs hold afterwards what the ranks left in them. Raises RankRaisedError,
        RanksStuckError and ReturnedError.
        """
        if len(groups) > 1 and not self.takes_group:
            return [self.run([one], timing)[0] for one in groups]
        count = rank_count(self._problem.inputs, list(groups[0][0].values()), self._ranks)
        place = count, len(groups)
        world = self._worlds.get(place)
        if world is None:
            world = self._worlds[place] = World(
                *place,
                function=self._function,
                problem=self._problem,
                recipe=self._recipe,
                device=self._device,
                starter=self._starter,
            )
        told = [
            [
                [
                    pack(part_of(value, name, self._ranks, rank=rank // len(groups), count=count))
                    for name, value in call.items()
                ]
                for call in groups[rank % len(groups)]
            ]
            for rank in range(count * len(groups))
        ]
        try:
            held = world.run(told, timing)  # type: ignore[arg-type]
        except BaseException:
            del self._worlds[place]
            world.close()
            raise
        of_group = [held[number :: len(groups)] for number in range(len(groups))]
        if not timing.refill:
            for calls, ranks in zip(groups, of_group, strict=True):
                for number, call in enumerate(calls):
                    self._write_back(call, ranks, number)
        return [
            [self._outputs(ranks, number, calls[number]) for number in range(len(calls))]
            for calls, ranks in zip(groups, of_group, strict=True)
        ]

    def _write_back(self, call: Call, held: Sequence[Holds], number: int) -> None:
        """Write what ranks left in their inputs where the caller looks for it."""
        for place, (name, value) in enumerate(call.items()):
            if not isinstance(value, torch.Tensor):
                continue
            cuts = parts(value.shape[0], len(held)) if value.dim() else ()
            for rank, holds in enumerate(held):
                match self._ranks.lies(name):
                    case Lies.OWN:
                        target = value[rank]
                    case Lies.SPLIT:
                        target = value[cuts[rank][0] : cuts[rank][1]]
                    case Lies.WHOLE:
                        target = value
                left = holds.inputs[number][place]
                if isinstance(left, Packed) and left != pack(target):
                    kept = unpack(left)
                    if isinstance(kept, torch.Tensor) and kept.shape == target.shape:
                        placement.copy_into(target, kept)

    def _outputs(self, held: Sequence[Holds], number: int, call: Call) -> list[Any]:
        found = []
        for place, spec in enumerate(self._problem.outputs):
            listed = []
            for rank, holds in enumerate(held):
                returned = holds.returned[number]
                if len(returned) != len(self._problem.outputs):
                    raise ReturnedError(
                        f"rank {rank} returned {len(returned)} outputs, expected "
                        f"{len(self._problem.outputs)}"
                    )
                sent = returned[place][1]
                if not isinstance(sent, Packed):
                    what = sent if isinstance(sent, str) else type(sent).__name__
                    raise ReturnedError(
                        f"rank {rank} returned a {what} as '{spec.name}', expected a tensor"
                    )
                listed.append(unpack(sent))
            found.append(self._whole(spec.name, listed))
        return found

    def _whole(self, name: str, listed: Sequence[Any]) -> torch.Tensor:
        """Return all ranks' tensors of an output as one. Raises ReturnedError."""
        splits = self._ranks.lies(name) is Lies.SPLIT
        first = listed[0]
        for rank, one in enumerate(listed):
            shapes = (one.shape[1:], first.shape[1:]) if splits else (one.shape, first.shape)
            if one.dtype is not first.dtype or shapes[0] != shapes[1]:
                raise ReturnedError(
                    f"rank {rank} returned '{name}' as {one.dtype} {list(one.shape)}, rank 0 as "
                    f"{first.dtype} {list(first.shape)}"
                )
        if splits:
            total = sum(one.shape[0] for one in listed)
            for rank, (start, end) in enumerate(parts(total, len(listed))):
                if listed[rank].shape[0] != end - start:
                    raise ReturnedError(
                        f"rank {rank} returned {listed[rank].shape[0]} of {total} rows of "
                        f"'{name}', expected {end - start}: torch.chunk cuts them so"
                    )
        return (torch.cat if splits else torch.stack)(list(listed)).to(self._device)


def on_ranks(
    function: Callable[..., object],
    problem: Problem,
    candidate: Candidate,
    *,
    builder: str,
    folder: Path,
    device: Device,
    starter: socket.socket | None = None,
) -> Callable[..., object]:
    """Return a built candidate as a call of all ranks, where its problem has ranks.

    `starter` starts the ranks where they run on GPUs.
    """
    if problem.ranks is None:
        return function
    recipe = Recipe(candidate=candidate, builder=builder, folder=folder)
    return Ranked(function, problem, problem.ranks, recipe=recipe, device=device, starter=starter)


def open_where_ranks_connect(
    connects: bool, confine: Callable[[], object]
) -> tuple[dict[str, str], socket.socket | None]:
    """Return the outcomes of walls and a starter, where ranks connect; nothing elsewhere.

    They share a network of their own.
    """
    if not connects:
        return {}, None
    own = walls.enter_own_network()
    return own, open_starter(lambda: (confine(), walls.filter_calls(connects=True)))
