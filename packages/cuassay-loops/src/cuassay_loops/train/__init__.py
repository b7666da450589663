"""`cuassay loop train`: training runs side by side, and what their gradients and losses say."""
