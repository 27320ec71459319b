"""The KV cache under each policy of a plan: with its layer, there in 8 bit, or in RAM."""
