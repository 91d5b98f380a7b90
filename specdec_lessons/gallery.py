"""A gallery of broken decoders found in the wild, each with the check that catches it: for lessons and mutation tests.

Sources are the projects' code and threads, as read; none of their code is used here.
"""

from __future__ import annotations

from .broken import (
    BlockEarlyStop,
    BlockTokenResidual,
    ForgetsAccepted,
    ForgetsDrafted,
    JudgedByAnotherQ,
    KeepsRejected,
    MisalignedResidual,
    OneCoin,
    PathByPath,
    ResamplesFromTarget,
    ResetsInstead,
    SoftmaxedResidual,
    SoftmaxGreedy,
    StaleBonus,
    with_swapped_joining,
)
from .exhibits import (
    BrokenCache,
    BrokenHead,
    BrokenRule,
    Examined,
    Exhibit,
    MeasuredExhibit,
    examine,
    measure,
)

__all__ = [
    "GALLERY",
    "BrokenCache",
    "BrokenHead",
    "BrokenRule",
    "Examined",
    "Exhibit",
    "MeasuredExhibit",
    "examine",
    "measure",
]

_P, _Q = ((0.5, 0.3, 0.2),), ((0.2, 0.3, 0.5),)
_CHAIN = (-1, 0)

GALLERY: tuple[Exhibit, ...] = (
    BrokenRule(
        name="softmax-greedy",
        title="Greedy decoding that tosses coins",
        found="romsto/Speculative-Decoding, greedy processor; by reading commit db7db67.",
        story=(
            "At temperature 0 the models' softmax probabilities are compared with a coin and a rejection takes the "
            "argmax of max(0, p − q), which need not be the target's most likely token. It looks right because no "
            "token is sampled anywhere, and the differing texts were blamed on rounding."
        ),
        caught="The enumerator: the greedy text is one text, and this rule writes others.",
        rule=SoftmaxGreedy,
        right="speculative-sampling",
        p=((0.45, 0.35, 0.2),),
        q=((0.6, 0.3, 0.1),),
        parents=(-1,),
        drafts="fixed",
        greedy=True,
    ),
    BrokenRule(
        name="path-by-path",
        title="Every path draws its own tokens",
        found="FasterDecoding/Medusa, nucleus mode, by reading commit e2a5d20; FasterDecoding/REST has the same.",
        story=(
            "Each path of the tree draws its own tokens, so a first token that many paths share is tried many "
            "times, and after a mismatch the drawn token is thrown away for a new one from p. It looks right "
            "because every single draw is from p, and a chain of one path accepts at the right rate."
        ),
        caught="The enumerator: the shared token is written almost three times too often.",
        rule=PathByPath,
        right="token-matching",
        p=_P,
        q=_Q,
        parents=(-1, 0, 0, 0),
        drafts="fixed",
    ),
    BrokenRule(
        name="resample-from-target",
        title="A second helping of p",
        found=(
            "samy19980109/Visualize-Speculative-Decoding, by reading commit 358d7a0: the resampled token is the "
            "target's own."
        ),
        story=(
            "After a rejection the next token is drawn from p instead of norm(max(0, p − q)). It looks right "
            "because p is what the text should follow, but the accepted tokens have already used up part of p."
        ),
        caught="The enumerator.",
        rule=ResamplesFromTarget,
        right="speculative-sampling",
        p=_P,
        q=_Q,
        parents=(-1,),
    ),
    BrokenRule(
        name="softmaxed-residual",
        title="Softmax where a division belongs",
        found="huggingface/transformers, repaired by pull request #28508.",
        story=(
            "The residual max(0, p − q) is turned into a distribution by softmax, which gives every token a share, "
            "including those that should have none. It looks right because the result sums to 1 and leans the right "
            "way."
        ),
        caught="The enumerator.",
        rule=SoftmaxedResidual,
        right="speculative-sampling",
        p=_P,
        q=_Q,
        parents=(-1,),
    ),
    BrokenRule(
        name="one-coin",
        title="A generator reseeded before every coin",
        found="feifeibear/LLMSpeculativeSampling with its option random_seed; by reading commit 59a209d.",
        story=(
            "The generator is reseeded before each coin, so that all tokens of a round get the same number, and "
            "a lucky token is followed by lucky ones. It looks right because the run can be repeated and each token "
            "by itself is accepted as often as it should be."
        ),
        caught="The enumerator, with the common coin integrated out; never at γ = 1.",
        rule=OneCoin,
        right="speculative-sampling",
        p=_P,
        q=_Q,
        parents=_CHAIN,
    ),
    BrokenRule(
        name="misaligned-residual",
        title="The n-th candidate is another token",
        found="ggml-org/llama.cpp, examples/speculative; by reading commit 007d713.",
        story=(
            "After top-k, p − q is taken between the n-th candidates of both lists, which are different tokens as "
            "soon as one list lacks a token. It looks right because both lists are sorted by id and nearly always "
            "hold the same tokens when nothing is cut."
        ),
        caught="The enumerator, on a draft whose top-k has cut the first token.",
        rule=MisalignedResidual,
        right="speculative-sampling",
        p=_P,
        q=((0.0, 0.4, 0.6),),
        parents=(-1,),
    ),
    BrokenRule(
        name="block-early-stop",
        title="Block verification that stops too early",
        found="vllm-project/vllm-ascend, requested by a review bot on pull request #11985.",
        story=(
            "Block verification ends at the first coin that fails, although its thresholds are made for the "
            "longest prefix whose coin passes. It looks right because judging token by token does end there."
        ),
        caught="The enumerator; never at γ = 1, where both are the same.",
        rule=BlockEarlyStop,
        right="block",
        p=((1 / 3, 2 / 3),),
        q=((2 / 3, 1 / 3),),
        parents=_CHAIN,
    ),
    BrokenRule(
        name="block-token-residual",
        title="Block verification with the residual of a token",
        found="vllm-project/vllm-ascend, issue #7807, repaired by pull request #7808.",
        story=(
            "After block verification the corrected token is drawn from max(0, p − q) without the running product "
            "that belongs before p. It looks right because that is the residual everyone knows, and the "
            "acceptance is as good as it should be."
        ),
        caught="The enumerator; never at γ = 1, where both are the same.",
        rule=BlockTokenResidual,
        right="block",
        p=((0.4, 0.2, 0.4),),
        q=((0.1, 0.1, 0.8),),
        parents=_CHAIN,
    ),
    BrokenRule(
        name="stale-bonus",
        title="The bonus token comes from the previous row",
        found="An index error of the kind that huggingface/transformers repaired in pull request #28166.",
        story=(
            "When everything was accepted, the bonus token is drawn from the distribution that judged the last "
            "proposed token, not from the one after it. It looks right because the shapes fit and the wrong row is "
            "a valid distribution, only one position too early."
        ),
        caught="The enumerator, on a target whose next token depends on the last one.",
        rule=StaleBonus,
        right="speculative-sampling",
        p=((0.5, 0.3, 0.2), (0.1, 0.6, 0.3), (0.3, 0.1, 0.6), (0.6, 0.3, 0.1)),
        q=_Q,
        parents=_CHAIN,
    ),
    BrokenRule(
        name="argmax-with-softmax",
        title="The favourite is drafted and judged as if it had been drawn",
        found=(
            "huggingface/transformers 5.24.0, SinglePositionMultiTokenCandidateGenerator with sampling (Gemma-4 "
            "assistants); by reading candidate_generator.py. Its DFlash and MTP generators draw (#47867, #48007)."
        ),
        story=(
            "The draft proposes its most likely token every time, and hands back its softmax as the q to judge by. It "
            "looks right because p/q is computed from the real logits of both models, but a token that is always "
            "proposed has q = 1."
        ),
        caught="The enumerator: tokens that are nobody's favourite are written too rarely, or never.",
        rule=JudgedByAnotherQ,
        right="speculative-sampling",
        p=_P,
        q=((0.6, 0.3, 0.1),),
        parents=(-1,),
        drafts="fixed",
        seen=((0.6, 0.3, 0.1),),
    ),
    BrokenRule(
        name="q-before-top-k",
        title="q from before top-k",
        found="huggingface/transformers, issue #47932: the draft's q was taken before top-k had cut it.",
        story=(
            "The draft draws from its two best tokens and reports the probabilities of all three. It looks right "
            "because the reported numbers are a distribution, and the wrong ones are smaller by a fifth at most."
        ),
        caught="The enumerator, on a draft whose top-k has cut a token.",
        rule=JudgedByAnotherQ,
        right="speculative-sampling",
        p=_P,
        q=((2 / 3, 1 / 3, 0.0),),
        parents=(-1,),
        seen=((0.6, 0.3, 0.1),),
    ),
    BrokenHead(
        name="mtp-order",
        title="Embedding and state the wrong way round",
        found=(
            "A trap between checkpoints: DeepSeek-V3 joins [embedding; state], MiMo and Inkling join the state first "
            "(`input_proj`, `mtp_hidden_states_first`). Both matrices have the same shape."
        ),
        story=(
            "The module reads its two inputs in the other order than the one it was trained with. It looks right "
            "because everything loads and the text is exact, as a lossless rule corrects any guess."
        ),
        caught="Tokens per pass beside the same head in order; the text, the audit and the shapes are clean.",
        proposer="mtp",
        breaks=with_swapped_joining,
    ),
    BrokenCache(
        name="forgets-accepted",
        title="The cache drops the last accepted token",
        found="An off-by-one in cropping a cache, which every hand-written loop gets wrong once.",
        story=(
            "One row too few is kept after an acceptance, so that the target continues without its last accepted "
            "token. It looks right because the text stays fluent and nothing fails."
        ),
        caught="The audit: the cache's length is not that of the text minus one.",
        side="target",
        reader=ForgetsAccepted,
    ),
    BrokenCache(
        name="keeps-rejected",
        title="A cache that cannot be trimmed",
        found=(
            "ml-explore/mlx-lm, where pull request #1109 refuses such caches; 0.32.2 still takes a sliding window's."
        ),
        story=(
            "Trimming the cache does nothing, so that the rejected tokens stay visible to all that follow. It "
            "looks right because the call succeeds and every length that is reported is the expected one."
        ),
        caught="A cache rebuilt from scratch, and the fork from greedy decoding; the audit sees nothing.",
        side="target",
        reader=KeepsRejected,
    ),
    BrokenCache(
        name="reset-not-rollback",
        title="Reset instead of rollback",
        found="paiml/aprender, repaired by pull request #2014.",
        story=(
            "Instead of the rejected tokens' rows, the whole cache is dropped, and the target continues with "
            "almost no context. It looks right because the lengths on the other side are still correct, and "
            "benchmarks that count tokens see nothing but a low acceptance."
        ),
        caught="A cache rebuilt from scratch, and the fork from greedy decoding; the audit sees nothing.",
        side="target",
        reader=ResetsInstead,
    ),
    BrokenCache(
        name="forgets-drafted",
        title="The draft never reads its own last token",
        found="What meta-pytorch/gpt-fast spends one more draft pass on after a full acceptance.",
        story=(
            "After a full acceptance the draft has not read its own last token yet, and a loop that feeds it only "
            "the newest one leaves a permanent gap in its cache. It looks right because the text is right: a "
            "lossless rule corrects any draft, and only the acceptance suffers."
        ),
        caught="A cache of the draft rebuilt from scratch; the text and the audit are clean.",
        side="draft",
        reader=ForgetsDrafted,
    ),
)
