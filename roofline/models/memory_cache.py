"""What is kept of each sequence while it is served: keys and values, latents, and the states of recurrent layers.

Keys and values of one token: kv_heads (d + d_v) numbers a layer; a latent is rank + rope numbers, held in full by each rank of tp. A
window bounds how many tokens stay. With context parallelism each rank keeps its share of the tokens.
"""

from __future__ import annotations

from roofline.dtypes import dtype as find_dtype
from roofline.models import count
from roofline.models.description import Attention, LatentAttention, Layer, Model
from roofline.models.memory_weights import keys_share
from roofline.numeric import Number, ceil_div, minimum
from roofline.plan.plan import Plan


def kv_bytes(layer: Layer, plan: Plan, tokens: Number, kv_dtype: str, page: int = 0) -> Number:
    """Bytes that one rank keeps of one sequence of ``tokens`` in one layer; whole pages of ``page`` tokens where that is above 0."""
    mixer, size = layer.mixer, find_dtype(kv_dtype).bytes
    if isinstance(mixer, Attention):
        kept = minimum(tokens, mixer.window) if mixer.window else tokens
        numbers = mixer.kv_heads * (mixer.head_dim + mixer.v_head_dim) * keys_share(plan, mixer.kv_heads)
    elif isinstance(mixer, LatentAttention):
        kept = tokens
        numbers = mixer.rank + mixer.rope + (mixer.indexer.head_dim if mixer.indexer else 0)
    else:
        return 0
    own = ceil_div(kept, plan.cp)
    return numbers * size * (ceil_div(own, page) * page if page else own)


def state_bytes(model: Model, layer: Layer, plan: Plan) -> Number:
    """Bytes that one rank keeps of one sequence whatever its length: states are split by heads."""
    return count.state_bytes(model, layer.mixer) / plan.tp
