"""How fast a plan answers: by arithmetic from bytes and rates, measured or assumed."""
