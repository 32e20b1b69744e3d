"""Past one machine: messages between processes, replicas of shards, routing, and what runs them."""
