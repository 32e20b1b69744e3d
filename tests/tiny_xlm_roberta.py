"""A seeded XLM-RoBERTa of 32 dimensions with a SentencePiece vocabulary of four scripts, as Hugging Face writes it."""

from __future__ import annotations

from pathlib import Path

FACTS = (
    ("Paris", "The capital of France is Paris. The river is old.", "What is the capital of France?", "Paris"),
    ("Москва", "Столица России — Москва. Река очень старая.", "Какая столица России?", "Москва"),
    ("東京", "日本の首都は東京です。川はとても古い。", "日本の首都はどこですか", "東京"),
    ("القاهرة", "عاصمة مصر هي القاهرة. النهر قديم جدا.", "ما هي عاصمة مصر؟", "القاهرة"),
)
"""Title, text, question and answer: Latin, Cyrillic, Japanese and Arabic script."""
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def write_tiny_xlm_roberta(directory: Path, *, seed: int = 0) -> Path:
    """Return the directory, which then holds the model and its tokeniser as transformers writes them."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import XLMRobertaConfig, XLMRobertaModel

    texts = [part for fact in FACTS for part in fact]
    characters = sorted({letter for text in texts for letter in text if not letter.isspace()})
    words = sorted({f"▁{word}" for text in texts for word in text.split() if len(word) < 8})
    pieces = [(token, 0.0) for token in SPECIAL] + [("▁", -4.0)]
    pieces += [(word, -6.0) for word in words] + [(letter, -8.0) for letter in characters]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(list(SPECIAL))
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    torch.manual_seed(seed)
    config = XLMRobertaConfig(
        vocab_size=len(pieces),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=514,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        pad_token_id=1,
    )
    XLMRobertaModel(config, add_pooling_layer=True).save_pretrained(directory)
    return directory
