"""From other formats to a store: reading text, naming features, the external shuffle, renumbering."""
