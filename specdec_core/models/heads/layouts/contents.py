"""The configuration and the tensors of a head's folder, and which of them were used: the others are refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from specdec_core.foundations.errors import ModelError

WITHOUT_EFFECT = frozenset(
    """
    architectures model_type speculators_model_type speculators_version speculators_config auto_map version
    transformers_version torch_dtype dtype name_or_path base_model_name_or_path target_model_name_or_path
    bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id unk_token_id decoder_start_token_id
    use_cache return_dict return_dict_in_generate output_attentions output_hidden_states output_scores torchscript
    use_bfloat16 is_encoder_decoder is_decoder add_cross_attention cross_attention_hidden_size
    tie_encoder_decoder tie_word_embeddings pruned_heads chunk_size_feed_forward id2label label2id num_labels
    problem_type finetuning_task tokenizer_class prefix task_specific_params tf_legacy_loss bad_words_ids
    suppress_tokens begin_suppress_tokens do_sample temperature top_k top_p typical_p min_length max_length num_beams
    num_beam_groups diversity_penalty length_penalty repetition_penalty no_repeat_ngram_size
    encoder_no_repeat_ngram_size early_stopping num_return_sequences remove_invalid_values
    exponential_decay_length_penalty
    modal_type forced_bos_token_id forced_eos_token_id attn_implementation has_no_defaults_at_init embed_requires_grad
    initializer_range attention_dropout hidden_dropout embd_pdrop resid_pdrop pretraining_tp gradient_checkpointing
    vocab_size max_position_embeddings unsloth_version unsloth_fixed ttt_length ttt_steps num_lookahead_tokens
    target_model_type max_seq_len max_window_layers step_loss_decay embed_init_std model_max_length
    attn_implementation_autoset max_paths topk medusa_choices use_mtp
    """.split()
)
"""Entries of a config.json that change nothing of what a head computes: names, dtypes, training and generation."""
NOT_GUESSED_WITH = ("verifier_lm_head.weight", "verifier_norm.weight")
"""The target's, which training compares with (speculators)."""
OWN = "specdec_"  # prefix of the entries that heads trained here have beside the published ones


class ConfigEntries(Mapping[str, Any]):
    """Entries of a configuration, remembering which were read.

    Args:
        found: the entries.
        within: where they are inside config.json, for messages.
    """

    def __init__(self, found: Mapping[str, Any], within: str = "") -> None:
        self._found, self._within, self._read = dict(found), within, set[str]()
        self._inner: dict[str, ConfigEntries] = {}

    def __getitem__(self, key: str) -> Any:
        self._read.add(key)
        return self._found[key]

    def __contains__(self, key: object) -> bool:
        return key in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def inner(self, key: str) -> ConfigEntries:
        """The entries below `key`; none where it is missing or holds no entries."""
        value = self._found.get(key)
        if not isinstance(value, Mapping):
            return ConfigEntries({})
        self._read.add(key)
        return self._inner.setdefault(key, ConfigEntries(value, f"{self._within}{key}."))

    def unread(self) -> list[str]:
        """The entries with a value that were neither read nor are without effect."""
        left = [
            f"{self._within}{key}"
            for key, value in self._found.items()
            if key not in self._read
            and key.lstrip("_") not in WITHOUT_EFFECT
            and not key.startswith(OWN)
            and value is not None
        ]
        return left + [key for inner in self._inner.values() for key in inner.unread()]


class Contents(Mapping[str, Tensor]):
    """A head's tensors by name, read from the file when they are asked for, beside its configuration.

    Args:
        name: of the folder or hub id, for messages.
        config: what config.json holds.
        places: the file of each tensor.
        targets: whether the folder is a target's own, so that the entries of its configuration are not the head's.

    Attributes:
        maker: who wrote the files, where that decides what an entry means; see `kinds.maker`.
    """

    def __init__(
        self,
        name: str,
        config: Mapping[str, Any],
        places: Mapping[str, Path],
        maker: str = "",
        targets: bool = False,
    ) -> None:
        self.name, self.config, self.maker, self.targets = name, ConfigEntries(config), maker, targets
        self._places = dict(places)
        self._stored = {key: key for key in places}  # name in use → name in the file
        self._read: set[str] = set()
        self._open: dict[Path, Any] = {}

    def rename(self, rule: Callable[[str], str | None]) -> None:
        """Use other names from now on; None leaves a tensor out, as not the head's."""
        renamed = ((rule(key), stored) for key, stored in self._stored.items())
        self._stored = {key: stored for key, stored in renamed if key is not None}

    def stored(self, key: str) -> str:
        """A tensor's name in the file."""
        return self._stored.get(key, key)

    def shape(self, key: str) -> tuple[int, ...]:
        """A tensor's shape, without reading it."""
        return tuple(self._file(key).get_slice(self._stored[key]).get_shape())

    def dtype(self, key: str) -> str:
        """A tensor's dtype in the file, as safetensors names it."""
        return str(self._file(key).get_slice(self._stored[key]).get_dtype())

    def __getitem__(self, key: str) -> Tensor:
        stored = self._stored[key]
        self._read.add(stored)
        try:
            tensor: Tensor = self._file(key).get_tensor(stored)
        except (SafetensorError, OSError):
            raise ModelError(f"'{self.name}' has damaged weights: '{stored}' could not be read.") from None
        finite = tensor if not tensor.is_floating_point() or tensor.itemsize > 1 else tensor.float()  # fp8
        if not torch.isfinite(finite).all():
            raise ModelError(
                f"'{self.name}' has damaged weights: '{stored}' holds numbers that are not finite. Train or fetch it "
                "again."
            )
        return tensor

    def __contains__(self, key: object) -> bool:
        return key in self._stored

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def skip(self, *keys: str) -> None:
        """Count tensors as read that were compared, or are known not to be part of the guesses."""
        self._read.update(self._stored[key] for key in keys if key in self._stored)

    def finish(self) -> None:
        """Refuse what was not read.

        Raises:
            ModelError: naming a tensor or an entry that nothing here computes with.
        """
        self._open.clear()
        tensors = sorted(set(self._stored.values()) - self._read)
        if tensors:
            self._refuse("the tensor", tensors, "its file")
        left = [] if self.targets else self.config.unread()
        if left:
            self._refuse("the entry", left, "its config.json")

    def _refuse(self, what: str, names: list[str], where: str) -> NoReturn:
        more = "" if len(names) == 1 else f" (and {len(names) - 1:,} more)"
        raise ModelError(
            f"'{self.name}' has {what} '{names[0]}'{more} in {where}, which is not computed with here, so it might "
            "guess otherwise than where it was made. Export it without, or choose another head."
        )

    def _file(self, key: str) -> Any:
        path = self._places[self._stored[key]]
        if path not in self._open:
            try:
                self._open[path] = safe_open(path, "pt")
            except (SafetensorError, OSError):
                raise ModelError(
                    f"'{self.name}' has damaged weights: {path.name} is not a whole safetensors file."
                ) from None
        return self._open[path]
