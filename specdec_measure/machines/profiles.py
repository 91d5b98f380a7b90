"""Machine profiles: the times of a target pass over n tokens, T(n), and of a draft pass, at a batch and a context.

A profile is *recorded*, by `python -m specdec_core profile` on the machine it names, or *modelled*, as a roofline: a
pass takes as long as the slower of moving its bytes and computing its products, plus a fixed time for starting its
kernels. Both are JSON files in assets/profiles and have the same method, `costs`; `whatif` puts a recorded decode
on their clock. Nothing here imports torch.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_core import from_json

from specdec_core.foundations.errors import SettingsError, sentence
from specdec_core.foundations.paths import assets
from specdec_core.runtime.timing.pass_times import pass_time

from .costs import MAX_BATCH, MAX_CONTEXT, Costs, Named, PassTime, Short, StrictModel
from .model_sizes import in_words
from .roofline import Modelled

MAX_BYTES = 1_000_000  # of a file

Seconds = Annotated[float, Field(gt=0.0, le=1e5)]
Count = Annotated[int, Field(ge=1, le=10**13)]
Widths = Annotated[tuple[Annotated[int, Field(ge=1, le=100_000)], ...], Field(max_length=1_000)]
Times = Annotated[tuple[Seconds, ...], Field(max_length=1_000)]


class ProfilePart(StrictModel):
    """A model that was timed: its name (never a path) and sizes."""

    name: Short
    parameters: Count
    layers: Annotated[int, Field(ge=1, le=10_000)]
    width: Annotated[int, Field(ge=1, le=10**6)]
    vocabulary: Annotated[int, Field(ge=1, le=10**7)]
    tied: bool

    @model_validator(mode="after")
    def _sizes(self) -> ProfilePart:
        if self.width * self.vocabulary * (1 if self.tied else 2) > self.parameters:
            raise ValueError("a model has at least the parameters of its output matrix")
        return self

    @property
    def output_share(self) -> float:
        """The output matrix's share of the parameters that a pass reads."""
        output = self.width * self.vocabulary
        return output / (self.parameters - (0 if self.tied else output))


class Curves(StrictModel):
    """Times at one batch and context: the fastest measurement, which the clock uses, and the median over all."""

    batch: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    context: Annotated[int, Field(ge=0, le=MAX_CONTEXT)]
    widths: Widths
    target_s: Times
    target_median_s: Times
    draft_widths: Widths = ()
    draft_s: Times = ()
    draft_median_s: Times = ()

    @model_validator(mode="after")
    def _columns(self) -> Curves:
        _check_columns("widths", self.widths, self.target_s, self.target_median_s)
        if self.draft_widths or self.draft_s or self.draft_median_s:
            _check_columns("draft_widths", self.draft_widths, self.draft_s, self.draft_median_s)
        return self


class RecordedProfile(Named):
    """Measured times and how they were measured.

    Attributes:
        machine, device, threads: where, and the number of CPU threads used.
        passes: whether the passes were launched kernel by kernel or as one CUDA graph.
        weights: trained or random; random weights are timed alike but say nothing about acceptance.
        measurements: how many whole curves were measured, each point a median over many passes.
        date, packages: when (ISO 8601, UTC), with which versions.
    """

    kind: Literal["recorded"]
    machine: Short
    device: Short
    threads: Annotated[int, Field(ge=1, le=10_000)]
    passes: Literal["eager", "graphs"]
    weights: Literal["trained", "random"]
    measurements: Annotated[int, Field(ge=1, le=100_000)]
    date: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT[0-9:+.Z-]{1,30}$")]
    packages: Annotated[dict[Short, Short], Field(max_length=32)]
    target: ProfilePart
    draft: ProfilePart | None
    curves: Annotated[tuple[Curves, ...], Field(min_length=1, max_length=200)]

    @model_validator(mode="after")
    def _complete(self) -> RecordedProfile:
        places = [(one.batch, one.context) for one in self.curves]
        if len({*places}) != len(places):
            raise ValueError("two curves are of the same batch and context")
        if any(bool(one.draft_s) != (self.draft is not None) for one in self.curves):
            raise ValueError("each curve has times of the draft exactly if there is one")
        return self

    @property
    def provenance(self) -> str:
        """Where the times come from, in a few words, and that they were recorded."""
        return f"recorded · {self.origin}"

    @property
    def origin(self) -> str:
        """Where and when the times were recorded."""
        return f"{self.machine}, {self.date[:10]}"

    @property
    def batches(self) -> list[int]:
        """The batches that were recorded."""
        return sorted({one.batch for one in self.curves})

    def contexts(self, batch: int = 1) -> list[int]:
        """The contexts that were recorded at that batch."""
        return sorted(one.context for one in self.curves if one.batch == batch)

    def costs(self, batch: int = 1, context: int | None = None) -> Costs:
        """Pass times at that batch and context (the smallest recorded one unless it is given).

        Raises:
            SettingsError: naming what was recorded.
        """
        found = [one for one in self.curves if one.batch == batch]
        if context is not None:
            found = [one for one in found if one.context == context]
        if not found:
            recorded = ", ".join(f"batch {one.batch} with context {one.context}" for one in self.curves[:8])
            raise SettingsError(
                f"The profile '{self.label}' was not recorded at batch {batch}"
                + (f" with context {context}" if context is not None else "")
                + f"; choose one of: {recorded}."
            )
        chosen = min(found, key=lambda one: one.context)
        return Costs(
            target=_curve(chosen.widths, chosen.target_s),
            draft=_curve(chosen.draft_widths, chosen.draft_s) if self.draft else None,
            layers=self.target.layers,
            output_share=self.target.output_share,
            batch=chosen.batch,
            context=chosen.context,
            pair=self.target.name + (f" with {self.draft.name}" if self.draft else ""),
        )

    @cached_property
    def assumptions(self) -> list[str]:
        """What was measured, and what was not."""
        said = [
            f"The quietest of {self.measurements} measurements, each a median, on {self.machine} "
            f"({self.device}, {self.dtype}, "
            f"{'CPU threads: ' + str(self.threads) if self.device == 'cpu' else self.passes}), {self.date[:10]}, "
            + ", ".join(f"{name} {number}" for name, number in self.packages.items())
            + ".",
            f"{self.target.name} ({in_words(self.target.parameters)} parameters)"
            + (f", drafted by {self.draft.name} ({in_words(self.draft.parameters)})." if self.draft else "."),
            "Between measured widths T(n) is a straight line; beyond the last one its last slope continues.",
        ]
        if self.weights == "random":
            said.append(
                "The weights were random: that changes no time, and nothing here is about acceptance."
            )
        return said + ([self.note] if self.note else [])


Profile = RecordedProfile | Modelled


def read(text: str | bytes, name: str) -> Profile:
    """A profile from the JSON text of the file `name`.

    Raises:
        SettingsError: naming the file and the first field that is wrong.
    """
    kinds: dict[str, type[RecordedProfile] | type[Modelled]] = {
        "recorded": RecordedProfile,
        "modelled": Modelled,
    }
    try:
        data = text.encode() if isinstance(text, str) else text
        if len(data) > MAX_BYTES:
            raise ValueError(f"it has {len(data):,} bytes, and at most {MAX_BYTES:,} are read")
        content = from_json(data, allow_inf_nan=False)
        if not isinstance(content, dict) or content.get("format") != "specdec-profile":
            raise ValueError("its 'format' is not 'specdec-profile'")
        kind = content.get("kind")
        if not isinstance(kind, str) or kind not in kinds:
            raise ValueError("its 'kind' is neither 'recorded' nor 'modelled'")
        return kinds[kind].model_validate_json(data)
    except ValidationError as error:
        raise SettingsError(f"{name} is not a profile: {sentence(error)}") from None
    except ValueError as error:
        raise SettingsError(f"{name} is not a profile: {error}.") from None


def write(profile: Profile) -> str:
    """The JSON text that `read` reads back as an equal profile."""
    return profile.model_dump_json(indent=1) + "\n"


def shipped(folder: Path | None = None) -> tuple[dict[str, Profile], list[str]]:
    """The profiles of a folder (assets/profiles) by file name, recorded ones first; a sentence for each bad file."""
    folder = folder or assets() / "profiles"
    found: dict[str, Profile] = {}
    problems = []
    for path in sorted(folder.glob("*.json")):
        try:
            found[path.stem] = read(_start_of(path), path.name)
        except OSError:
            problems.append(f"{path.name} cannot be opened.")
        except SettingsError as error:
            problems.append(str(error))
    return dict(sorted(found.items(), key=lambda one: one[1].kind != "recorded")), problems


def _start_of(path: Path) -> bytes:
    """A file's text, or of one too large just enough to show that."""
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _curve(widths: tuple[int, ...], seconds: tuple[float, ...]) -> PassTime:
    table: dict[int, float] = dict(zip(widths, seconds, strict=True))
    return lambda tokens: pass_time(table, tokens)


def _check_columns(name: str, widths: tuple[int, ...], *columns: tuple[float, ...]) -> None:
    rising = all(one < other for one, other in pairwise(widths))
    if widths[:1] != (1,) or not rising or any(len(column) != len(widths) for column in columns):
        raise ValueError(f"{name} must rise from 1, with one time for each in every column")
