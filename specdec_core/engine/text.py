"""The text of a lane as it grows, token by token, and where it ends; and the names of a record's tokens."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from specdec_core.models.tokens.tokenizer import Codec, Pieces
from specdec_core.record.schema import EndReason, Output, Round
from specdec_core.settings import Settings


class Text:
    """The output so far: ids, the piece of text each adds, and the piece's offset.

    Stop strings are looked for as transformers looks for its `stop_strings`: with the names of special tokens written
    out, and where they begin in the prompt and end in the text. (Servers look for them in the text alone.)
    """

    def __init__(self, codec: Codec, prompt: Sequence[int], eos: Collection[int], settings: Settings) -> None:
        self.eos, self.stop, self.most = eos, settings.stop, settings.max_new_tokens
        self.output = Output([], [], [], "")
        added = codec.added() if self.stop else {}
        self._special = {token: name for name, (token, special) in added.items() if special}
        self._seen = ""  # where stop strings are looked for
        self._pieces = Pieces(codec, prompt)
        if self.stop:
            end = max(map(len, self.stop))
            before = Pieces(codec, prompt[:-end])
            for token in prompt[-end:]:
                self._show(token, before.push(token))

    def add(self, tokens: Sequence[int]) -> tuple[int, EndReason | None]:
        """Add a round's tokens up to the end of sequence, a stop string or the length limit, whichever comes first.

        Returns:
            How many were added, and why the text ends there, if it does.
        """
        room = self.most - len(self.output.ids)
        for kept, token in enumerate(tokens, start=1):
            if self._append(token):
                return kept, "stop"
            if token in self.eos:
                return kept, "eos"
            if kept == room:
                return kept, "length"
        return len(tokens), None

    def finish(self) -> Output:
        """The whole output, including an incomplete last character."""
        rest = self._pieces.rest()
        if rest and self.output.texts:
            self.output.texts[-1] += rest
        self.output.text = "".join(self.output.texts)
        return self.output

    def _append(self, token: int) -> bool:
        """Add a token's piece; whether the text now ends with a stop string."""
        piece, output = self._pieces.push(token), self.output
        output.ids.append(token)
        output.texts.append(piece)
        output.offsets.append(len(output.text))
        output.text += piece
        return self._stops(token, piece) if self.stop else False

    def _stops(self, token: int, piece: str) -> bool:
        """Whether a stop string ends within what the last token adds."""
        shown = self._show(token, piece)
        return any(stop in self._seen[1 - len(shown) - len(stop) :] for stop in self.stop if shown)

    def _show(self, token: int, piece: str) -> str:
        """A token's piece, or its name, which is looked at from now on."""
        shown = piece + self._special.get(token, "")
        self._seen += shown
        return shown


def names_of(codec: Codec, rounds: Iterable[Round], others: Iterable[int]) -> dict[str, str]:
    """Display texts of all token ids in these rounds, and of others."""
    ids = set(others)
    for row in rounds:
        ids.update(row.nodes.token)
        for fact in row.note.values():  # a note's lists of lists hold token ids
            if isinstance(fact, list):
                ids.update(token for entry in fact if isinstance(entry, list) for token in entry)
        for position in row.positions:
            for head in position.heads.values():
                ids.update(head.id)
    ordered = sorted(ids)
    return {str(token): name for token, name in zip(ordered, codec.names(ordered), strict=True)}
