"""What a decoder's process needs: imported once, by the process that all of them are forked from.

Nothing of it goes away, so the garbage collector does not walk over its hundreds of thousands of objects: neither
while they are imported, a fifth of that time, nor in the children, whose memory of it stays shared.
"""

import gc
from importlib import import_module

HEAVY = (
    "specdec_core.models.loading",
    "specdec_core.engine.plan",
    "transformers.models.llama.modeling_llama",
)

gc.disable()
for name in HEAVY:
    import_module(name)
gc.freeze()
gc.enable()
