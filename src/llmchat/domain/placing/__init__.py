"""Where a model's bytes can lie: what the strategies are made of. Each strategy itself is in ``strategies``."""
