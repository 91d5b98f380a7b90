"""What a model's `generation_config.json` requests of decoding: applied, suggested, or not supported here.

transformers' `generate` follows that file silently, so a decoder that ignored it would write a different text. Here
an unset setting takes the file's value, a given one overrides it, and what is applied is always reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeGuard

from specdec_core.foundations.errors import SettingsError
from specdec_core.settings import Settings

OFF: dict[str, float] = {"repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "min_p": 0.0}
"""The settings that may be left unset, and the value at which each has no effect."""
SUGGESTED = ("do_sample", "temperature", "top_k", "top_p")  # `Settings` has its own defaults for these
NOT_DONE: dict[str, tuple[object, ...]] = {
    "guidance_scale": (1, 1.0),
    "sequence_bias": (),
    "encoder_repetition_penalty": (1, 1.0),
    "encoder_no_repeat_ngram_size": (0,),
    "bad_words_ids": (),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "exponential_decay_length_penalty": (),
    "suppress_tokens": (),
    "begin_suppress_tokens": (),
    "top_h": (),
    "typical_p": (1, 1.0),
    "epsilon_cutoff": (0, 0.0),
    "eta_cutoff": (0, 0.0),
    "watermarking_config": (),
    "num_beams": (1,),
    "stop_strings": (),
}
"""Options that affect `generate` and are not supported here, with the values at which they have no effect."""


@dataclass(frozen=True, slots=True)
class Generation:
    """The parts of a model's generation config that affect its text.

    Attributes:
        requests: the settings in `OFF` it sets to a value with an effect.
        suggests: how its authors draw tokens (`SUGGESTED`); shown, as these settings have values of their own.
        not_done: names of requested options that are not supported here.
        unusable: a sentence for each ignored out-of-range value.
        notes: further sentences, on what is done differently from `generate` for other reasons than this file.
    """

    requests: Mapping[str, float] = field(default_factory=dict)
    suggests: Mapping[str, float | bool] = field(default_factory=dict)
    not_done: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, config: Any, notes: Sequence[str] = ()) -> Self:
        """What a transformers `GenerationConfig` requests; nothing for None."""
        values = {name: getattr(config, name, None) for name in (*OFF, *SUGGESTED, *NOT_DONE)}
        requests: dict[str, float] = {}
        unusable = []
        for name, off in OFF.items():
            value = values[name]
            if value is None or value == off:
                continue
            try:
                requests[name] = getattr(Settings(**{name: value}), name)
            except SettingsError as error:
                unusable.append(
                    f"The model's generation config cannot be applied and is left out there: {error}"
                )
        return cls(
            requests,
            {name: value for name, value in values.items() if name in SUGGESTED and _is_number(value)},
            tuple(name for name, idle in NOT_DONE.items() if _has_effect(values[name], idle)),
            tuple(unusable),
            tuple(notes),
        )

    def resolved(self, settings: Settings) -> Settings:
        """The settings with unset values taken from the model; still None where it sets nothing."""
        taken = {name: value for name, value in self.requests.items() if getattr(settings, name) is None}
        return settings.but(**taken) if taken else settings

    def remarks(self, settings: Settings) -> list[str]:
        """Sentences on what the model requests and what is applied under `settings`; none if it requests nothing."""
        applied = {
            name: value for name, value in self.requests.items() if getattr(settings, name) in (None, value)
        }
        replaced = {name: value for name, value in self.requests.items() if name not in applied}
        found = []
        if applied:
            found.append(f"The model's generation config sets {_listed(applied)}: applied.")
        for name, value in replaced.items():
            given = getattr(settings, name)
            now = "switched off" if given == OFF[name] else f"{given:g} is used"
            found.append(f"The model's generation config sets {name} = {value:g}: {now}.")
        if unlike := self._unlike(settings):
            found.append(
                f"The model's authors suggest {_listed(unlike)}, which is not applied; the settings here are used."
            )
        if self.not_done:
            found.append(
                f"The model's generation config also sets {', '.join(self.not_done)}, which this decoder does not "
                "support, so transformers' generate may write another text."
            )
        return [*found, *self.unusable, *self.notes]

    def _unlike(self, settings: Settings) -> dict[str, float | bool]:
        """The suggestions that `settings` do not happen to follow; temperature 0 follows `do_sample = false`."""
        greedy = settings.temperature == 0
        if greedy and not self.suggests.get("do_sample", True):
            return {}  # greedy in both, where temperature, top-k and top-p have no effect
        here = {name: getattr(settings, name) for name in SUGGESTED if name != "do_sample"}
        here["do_sample"] = not greedy
        return {name: value for name, value in self.suggests.items() if value != here[name]}


def _is_number(value: object) -> TypeGuard[float | bool]:
    return isinstance(value, int | float) and math.isfinite(value)


def _has_effect(value: object, idle: tuple[object, ...]) -> bool:
    return value is not None and value is not False and value not in ([], {}, *idle)


def _listed(values: Mapping[str, float | bool]) -> str:
    *most, last = (
        f"{name} = {str(value).lower() if isinstance(value, bool) else format(value, 'g')}"
        for name, value in values.items()
    )
    return f"{', '.join(most)} and {last}" if most else last
