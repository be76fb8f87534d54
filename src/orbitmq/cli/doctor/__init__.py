"""``orbitmq doctor``: facts about a cluster, checks of them, and words."""
