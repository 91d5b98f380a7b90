"""Options of a proposer, a rule or a length policy: declared once, validated, and described for every screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from specdec_core.errors import SettingsError, sentence


class OptionSet(BaseModel):
    """The options of one kind; a subclass declares each as a field with a default, bounds and a description.

    The command line and the lab build their controls from the fields, so a field's description is what a user reads.
    Numbers are strict: neither True nor "3" is taken for one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


Kind = TypeVar("Kind", bound=OptionSet)


def read(owner: str, kind: type[Kind], given: Mapping[str, Any]) -> Kind:
    """`given` as validated options of `owner` (e.g. "the proposer 'prompt-lookup'").

    Raises:
        SettingsError: naming the first option that is unknown or out of range, and what is known.
    """
    for name in given:
        if name not in kind.model_fields:
            known = ", ".join(sorted(kind.model_fields)) or "none"
            raise SettingsError(f"{owner[:1].upper()}{owner[1:]} has no option '{name}'; it knows: {known}.")
    try:
        return kind(**given)
    except ValidationError as error:
        raise SettingsError(f"Option of {owner}: {sentence(error)}") from None
