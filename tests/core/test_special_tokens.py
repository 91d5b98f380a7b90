"""What a special token means where text stands for tokens: stop strings, ends, turns of a chat, drafts over text."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import torch
from tokenizers import processors
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from transformers.generation.stopping_criteria import StopStringCriteria

import specdec_core as sd
from specdec_core.models.assembling import assemble, foreign
from specdec_core.models.tokens.tokenizer import HubCodec

from .tiny import build, tokenizer

PROPOSERS = ("none", "prompt-lookup", "draft-model", "branching")


def named(*names: str, special: bool = True) -> PreTrainedTokenizerFast:
    """The tiny tokenizer with further tokens."""
    made = copy.deepcopy(tokenizer())
    made.add_tokens(list(names), special_tokens=special)
    return made


def follower(after: Mapping[int, int], size: int) -> PreTrainedModel:
    """A model that writes `after[t]` behind token t, whatever came before."""
    made = build("llama", vocab_size=size, hidden_size=64, tie_word_embeddings=False)
    core: Any = made
    with torch.no_grad():
        for layer in core.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        table = core.model.embed_tokens.weight.normal_()
        core.lm_head.weight.zero_()
        for token, then in after.items():
            core.lm_head.weight[then] += 5 * table[token] / table[token].norm()
    return made


@cache
def round_about() -> tuple[sd.Models, PreTrainedTokenizerFast]:
    """A model that writes "the", a special token, " cat", an emoji's four bytes, and so on from the start."""
    words = named("<|over|>")
    ids = [*words("the").input_ids, len(words) - 1, *words(" cat😀").input_ids]
    model = follower(dict(zip(ids, [*ids[1:], ids[0]], strict=True)), len(words))
    return assemble(words, model, model), words


@pytest.mark.parametrize("proposer", PROPOSERS)
@pytest.mark.parametrize(
    "stop",
    [
        "<|over|>",
        "the<|over|>",
        "he<|o",
        "<|over|> ",
        "> ca",
        "r|",
        "thecat",
        "the cat",
        "cat😀t",
        "|>|",
        "<|",
        "he",
        "the the",
        "😀the<",
    ],
)
def test_a_stop_string_ends_the_text_where_transformers_does(proposer: str, stop: str) -> None:
    """Catches: the name of a special token that is not looked for, or a stop string found across one; one that begins
    in the prompt, or ends there."""
    models, words = round_about()
    settings = sd.Settings(proposer=proposer, max_new_tokens=20, stop=(stop,))
    prompt = models.codec.encode("the cat😀the")
    trace = sd.decode(models, prompt, settings)
    whole = prompt + sd.decode(models, prompt, settings.but(stop=())).token_ids
    criterion = StopStringCriteria(words, [stop])
    done = [bool(criterion(torch.tensor([whole[: end + 1]]), None)) for end in range(len(prompt), len(whole))]
    assert len(trace.token_ids) == (done.index(True) + 1 if any(done) else 20)
    assert trace.end == ("stop" if any(done) else "length")
    assert trace.audit() == []


def test_a_stop_string_ends_each_text_of_a_batch() -> None:
    """Catches: a batch with an end of its own."""
    models, words = round_about()
    settings = sd.Settings(proposer="none", max_new_tokens=20, stop=("<|over|>",))
    done = sd.decode_batch(models, ["the", "😀the"], settings)
    assert [(one.end, len(one.output.ids)) for one in done.texts] == [("stop", 1)] * 2
    assert [words.convert_ids_to_tokens(one.output.ids[-1]) for one in done.texts] == ["<|over|>"] * 2


def test_a_character_over_several_tokens_is_a_stop_string() -> None:
    """Catches: a text whose tokens are looked at one by one, each of them a broken character."""
    models, _ = round_about()
    trace = sd.decode(models, "the", sd.Settings(proposer="none", max_new_tokens=20, stop=("😀",)))
    assert trace.end == "stop" and trace.text.endswith("😀")


TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}<|assistant|>"


def chatting(template: str, **ends: object) -> sd.Models:
    """A model that ends its answer after one token and goes on, by a token that only the template names."""
    words = named("<|user|>", "<|assistant|>", "<|end|>")
    words.chat_template = template
    the, turn, end = (words.convert_tokens_to_ids(name) for name in ("the", "<|assistant|>", "<|end|>"))
    model = follower({turn: the, the: end, end: the}, len(words))
    for name, value in ends.items():
        setattr(model.generation_config, name, value)
    return assemble(words, model, model)


def test_an_answer_ends_where_the_template_ends_it() -> None:
    """Catches: a chat that runs past its turn, a plain prompt unlike `generate`, and no word of either."""
    models = chatting(TEMPLATE)
    for proposer in PROPOSERS:
        settings = sd.Settings(proposer=proposer, max_new_tokens=9)
        chat = sd.decode(models, sd.Chat("hello"), settings)
        assert (chat.end, len(chat.token_ids)) == ("eos", 2)
        plain = sd.decode(models, chat.header.prompt_ids, settings)
        assert (plain.end, len(plain.token_ids)) == ("length", 9)
    (said,) = models.generation.remarks(sd.Settings())
    assert "<|end|>" in said and "chat template" in said


@pytest.mark.parametrize(
    ("template", "ends"),
    [
        (TEMPLATE, {"eos_token_id": [1, len(tokenizer()) + 2]}),  # named as an end already
        ("{% for m in messages %}{{ m.content }}\n{% endfor %}", {}),  # ends a turn without a token
        ("{% for m in messages %}{{ m.content | upper }}<|end|>{% endfor %}", {}),  # writes something else
        ("{{ raise_exception('no') }}", {}),
    ],
)
def test_without_a_token_that_ends_a_turn_nothing_changes(template: str, ends: dict[str, object]) -> None:
    """Catches: an end that nobody wrote, and a template that keeps a model from being loaded."""
    models = chatting(template, **ends)
    assert models.turn_end is None and models.generation.remarks(sd.Settings()) == []


def framed(single: str) -> PreTrainedTokenizerFast:
    """The tiny tokenizer with special tokens around a text."""
    made = copy.deepcopy(tokenizer())
    made.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return made


@pytest.mark.parametrize(
    ("single", "begins", "appends"),
    [
        ("<s> $A </s>", [0], [1]),
        ("$A </s>", [], [1]),
        ("<s> $A", [0], []),
        ("$A", [], []),
        ("$A </s> <s>", [], [1, 0]),
    ],
)
def test_no_prompt_of_a_causal_model_ends_in_an_end_token(
    single: str, begins: list[int], appends: list[int]
) -> None:
    """Catches: a model that goes on after a finished text, and a beginning or an end of the text's own that is cut."""
    words, model = framed(single), build("llama", vocab_size=300)
    models = assemble(words, model)
    assert isinstance(models.codec, HubCodec)
    for text in ("the cat", "the </s>", ""):
        ids = words.encode(text)
        assert models.codec.encode(text) == ids[: len(ids) - len(appends)]
        assert HubCodec(words).encode(text) == ids
    assert HubCodec(words).frame() == (begins, appends)
    assert ["</s>" in said for said in models.generation.remarks(sd.Settings())] == [True] * bool(appends)


def rates(
    target: PreTrainedTokenizerFast, draft: PreTrainedTokenizerFast, prompt: list[int]
) -> dict[str, float]:
    """Tokens per pass of one model that drafts for itself, over the target's tokens and through text."""
    model = build("llama", seed=3, vocab_size=max(len(target), len(draft)))
    models = assemble(target, model, model)
    models.foreign_draft = foreign(models, draft, model)
    return {
        name: sd.decode(models, prompt, sd.Settings(proposer=name, max_new_tokens=40)).stats.tokens_per_pass
        for name in ("draft-model", "shared-tokens", "text-draft")
    }


@pytest.mark.parametrize(
    "text", ["a dog and", "<|me|>a dog and<|you|>", "on the mat<|you|>who", "<|you|><|me|>"]
)
def test_a_foreign_draft_reads_the_special_tokens_that_it_has(text: str) -> None:
    """Catches: a chat's turns that a draft never sees, so that the same weights guess badly."""
    words = named("<|me|>", "<|you|>")
    newer = copy.deepcopy(words)
    newer.add_tokens(["<|plan|>"], special_tokens=True)
    found = rates(words, newer, words(text, add_special_tokens=False).input_ids)
    assert min(found.values()) > 0.9 * found["draft-model"] > 4, found


@pytest.mark.parametrize("single", ["<s> $A </s>", "$A </s>", "<s> $A"])
def test_a_foreign_draft_sees_no_end_behind_the_prompt(single: str) -> None:
    """Catches: an end that the draft's tokenizer appends, and a beginning that the target does not read."""
    found = rates(tokenizer(), framed(single), tokenizer()("a dog and").input_ids)
    assert min(found.values()) > 0.9 * found["draft-model"] > 4, found


def test_special_tokens_are_the_same_by_name_then_by_what_they_do() -> None:
    """Catches: an end that is read as another token, a token that is special to one of the two only, and one whose name
    stands in the text as letters."""
    words, others = named("<think>", "<|me|>", special=False), named("<|me|>", "<think>", "<|mine|>")
    others.eos_token, others.bos_token = "<|mine|>", None
    model = build("llama", vocab_size=310)
    models = assemble(words, model)
    draft = foreign(models, others, model)
    ids = {
        name: (words.convert_tokens_to_ids(name), others.convert_tokens_to_ids(name))
        for name in ("<think>", "<|me|>")
    }
    for theirs, mine in ids.values():
        assert draft.shared[theirs] == mine and draft.read([theirs], 9) == [mine]
    assert draft.shared[1] == 1  # </s> is the same token, though others end by another
    letters = words.backend_tokenizer
    letters.encode_special_tokens = False
    spelled = [token for letter in "<|me|>" for token in words.encode(letter)]
    assert draft.read(spelled, 9) == [token for letter in "<|me|>" for token in others.encode(letter)]


def test_committed_special_tokens_reach_the_draft() -> None:
    """A model that ends each turn by a special token. Catches: marks that the prompt's tokens have and the text's own
    do not."""
    words = named("<|me|>", "<|you|>")
    the, me, you = words.convert_tokens_to_ids("the"), len(words) - 2, len(words) - 1
    model = follower({the: me, me: you, you: the}, len(words) + 1)
    other = copy.deepcopy(words)
    other.add_tokens(["<|plan|>"], special_tokens=True)
    models = assemble(words, model, model)
    models.foreign_draft = foreign(models, other, model)
    for name in ("shared-tokens", "text-draft"):
        trace = sd.decode(models, "the", sd.Settings(proposer=name, max_new_tokens=30))
        assert trace.token_ids == [me, you, the] * 10
        assert trace.stats.tokens_per_pass > 4.9, name


def test_a_draft_s_window_ends_its_guesses_and_not_the_run() -> None:
    """Every draft with a limit, learned positions too, whose table ends there. Catches: a refusal of what plain
    decoding does, a read beyond the table, and a limit that nobody is told."""
    for architecture in ("llama", "gpt2", "opt"):
        limit = "n_positions" if architecture == "gpt2" else "max_position_embeddings"
        target = build("llama", vocab_size=300)
        short = build(architecture, vocab_size=300, **({limit: 64} if architecture == "llama" else {}))
        if architecture != "llama":
            short = _short(architecture)
        models = assemble(tokenizer(), target, short, names=("target", "short", "larger"), larger_draft=short)
        assert models.draft is not None
        models.draft.mask = 1  # type: ignore[misc]
        models.foreign_draft = foreign(models, tokenizer(), short)
        (said, _) = models.generation.remarks(sd.Settings())
        assert "'short' reads at most 64 tokens" in said and "256" in said
        for length in (50, 63, 64, 65, 90):
            prompt = list(range(3, 3 + length))
            plain = sd.decode(models, prompt, sd.Settings(proposer="none", max_new_tokens=30)).token_ids
            runs: list[dict[str, Any]] = [
                {"proposer": name}
                for name in ("draft-model", "branching", "parallel-draft", "text-draft", "shared-tokens")
            ]
            runs += [
                {"proposer": name, "options": {"draft": "larger"}} for name in ("draft-model", "branching")
            ]
            runs += [{"proposer": "draft-model", "overlap": True}, {"proposer": "branching", "overlap": True}]
            for run in runs:
                trace = sd.decode(models, prompt, sd.Settings(max_new_tokens=30, draft_length=6, **run))
                assert trace.token_ids == plain and trace.audit() == [], (architecture, length, run)
    with pytest.raises(sd.PromptError, match="'target' reads at most 256"):
        sd.decode(models, list(range(3, 230)), sd.Settings(max_new_tokens=40))


def _short(architecture: str) -> PreTrainedModel:
    """A model with learned positions for 64 tokens."""
    from transformers import AutoModelForCausalLM, GPT2Config, OPTConfig

    sizes = {"vocab_size": 300, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
    torch.manual_seed(1)
    if architecture == "gpt2":
        config: Any = GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, **sizes)
    else:
        config = OPTConfig(
            hidden_size=32, word_embed_proj_dim=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=64, **sizes,
        )  # fmt: skip
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
