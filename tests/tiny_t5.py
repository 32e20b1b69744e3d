"""A seeded T5 of 16 dimensions with a word vocabulary in a directory: random, but a real model and tokeniser."""

from __future__ import annotations

from pathlib import Path

_TEXT = """
    <pad> </s> <unk> <hl> generate question : answer context who what when was is the a of in and by on river
    tower light granite harbour town keeper diary museum storm gas burner ? . ,
"""
WORDS = _TEXT.split()


def write_tiny_t5(directory: Path, *, seed: int = 0) -> Path:
    """Return the directory, which then holds the model and its tokeniser as transformers writes them."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        additional_special_tokens=["<hl>"],
    )
    fast.save_pretrained(directory)
    torch.manual_seed(seed)
    config = T5Config(
        vocab_size=len(WORDS),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=1,
        num_heads=2,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )
    T5ForConditionalGeneration(config).save_pretrained(directory)
    return directory
