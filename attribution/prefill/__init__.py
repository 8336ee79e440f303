"""A prefill stack with the shape of DSA (DeepSeek sparse attention), whose indexer can be replaced: what is a part worth?

`attr prefill` measures it, `attr reconcile` reads what it left.  torch is imported inside functions only.
"""
