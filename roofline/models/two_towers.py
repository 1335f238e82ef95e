"""CLIP: an encoder of images and one of texts, whose results are compared pair by pair."""

from __future__ import annotations

from roofline.models import vision
from roofline.models.config import Config
from roofline.models.description import Extra, Model
from roofline.models.encoder import encoder_layer
from roofline.models.reading import activation, decoder, dtype_of, layer_count

PAIRS = "pairs"
"""The projection of the texts and the scale, counted with the vision tower."""


def clip(config: Config) -> Model:
    """Two towers with a projection each and a learnt scale; the text tower, which is causal, is the model."""
    text, seen = config.section("text_config"), config.section("vision_config")
    if text is None or seen is None:
        config.fail(None, "the configuration lacks 'text_config' or 'vision_config'")
        return decoder(config, ())
    width = config.integer("projection_dim", default=512)
    for part in (text, seen):
        part.integer("projection_dim", default=width)
        part.flag("tie_word_embeddings")
    hidden, heads = text.integer("hidden_size"), text.integer("num_attention_heads")
    layer = encoder_layer(hidden, heads, text.integer("intermediate_size"), act=activation(text, "gelu"), causal=True)
    eyes, longest = vision.clip(seen, width), text.integer("max_position_embeddings")
    config.notes.append("counted: both towers, projections and the scale; position ids are a buffer and no parameter")
    model = Model(
        name="",
        model_type="clip",
        kind="encoder",
        hidden=hidden,
        vocab=text.integer("vocab_size"),
        layers=(layer,) * layer_count(text),
        norm="layernorm",
        norm_bias=True,
        head=False,
        positions=longest,
        context=longest,
        extras=(
            Extra(name="vision_tower", part="vision", elements=vision.elements(eyes)),
            Extra(name=PAIRS, part="vision", elements=width * hidden + 1),
        ),
        towers=(eyes,),
        dtype=dtype_of(config),
    )
    text.close()
    seen.close()
    return model
